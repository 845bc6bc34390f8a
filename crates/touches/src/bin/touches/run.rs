//! One run of one case: its control groups, a process for each tenant, and the tenants' turns.
//!
//! Invariants: only one tenant's process runs at a time. Between two listed turns the program waits
//! until the kernel has flushed its statistics, so that reclaim in the second turn works with the
//! counts of the first. After each burst of touches this process runs, so the machine's only
//! processor switches address spaces twice. The counters are read while the tenants' processes
//! still exist.

use std::path::Path;

use touches::case::Case;
use touches::figures::{FLUSHES, Figures, KERNELS, Key, RESTED};
use touches::turns::Turns;

use crate::child::Worker;
use crate::counters;
use crate::groups::{Groups, read, write};
use crate::trace::Trace;
use crate::watch::Watch;

const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";
/// Takes the place of a tenant's name in the figures of all tenants together.
const ALL: &str = "all";

/// Checks that the machine is prepared for runs; sets swappiness to 60 and turns swap read-ahead
/// off. Returns an error before it changes anything if this machine is not the guest.
pub(crate) fn prepare() -> Result<(), String> {
    let online = read(Path::new("/sys/devices/system/cpu/online"))?;
    if online.trim() != "0" {
        return Err(format!(
            "this is for the guest of `cargo xtask guest oracle`, which has one processor; here are {}",
            online.trim()
        ));
    }
    let thp = read(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"))?;
    if !thp.contains("[never]") {
        return Err(format!("huge pages must be off, not {}", thp.trim()));
    }
    write(Path::new("/proc/sys/vm/swappiness"), "60")?;
    write(Path::new("/proc/sys/vm/page-cluster"), "0")
}

/// Runs a case with bursts of `burst` touches; returns the figures of each tenant, then those of
/// all tenants together.
pub(crate) fn run(
    case: &Case,
    policy: &str,
    (seed, burst): (u64, u64),
) -> Result<Vec<Figures>, String> {
    let multi_gen = policy == "multi-gen";
    write(Path::new(LRU_GEN), if multi_gen { "y" } else { "n" })?;
    let groups = Groups::make(case)?;
    let mut workers = Vec::new();
    for (n, tenant) in case.tenants.iter().enumerate() {
        workers.push(Worker::start(case, (n, seed), groups.path(tenant.group))?);
    }
    let before = counters::swapped()?;
    let mut watch = Watch::start()?;
    // With several tenants, the trace would not show which tenant's page tables are walked.
    let alone = Some(&workers[0]).filter(|_| multi_gen && workers.len() == 1);
    let trace = alone.map(|worker| Trace::start(worker.pid())).transpose()?;
    touch(Turns::new(case, burst), &mut workers, &mut watch)?;
    let after = counters::swapped()?;
    let rested = trace.map(Trace::finish).transpose()?;
    let flushes = Some((FLUSHES.to_owned(), watch.seen()));
    let rested = rested.map(|list| (RESTED.to_owned(), list));
    let key = |tenant: &str| Key {
        case: case.name.to_owned(),
        policy: policy.to_owned(),
        seed,
        burst,
        tenant: tenant.to_owned(),
    };
    let mut all = Figures {
        key: key(ALL),
        counts: [].into(),
        lists: flushes.into_iter().chain(rested).collect(),
    };
    all.lists
        .insert(KERNELS.to_owned(), kernels(case, &groups)?);
    let mut figures = Vec::new();
    for (n, (tenant, worker)) in case.tenants.iter().zip(&workers).enumerate() {
        let mut counts = counters::of_group(groups.path(tenant.group))?;
        for (name, count) in &counts {
            *all.counts.entry(name.clone()).or_default() += count;
        }
        counts.insert("checksum".to_owned(), worker.checksum);
        if multi_gen {
            let path = format!("/{}", case.path(tenant.group));
            let [max, min] = counters::generations(&path)?;
            counts.insert("max_seq".to_owned(), max);
            counts.insert("min_seq".to_owned(), min);
        }
        figures.push(Figures {
            key: key(case.tenant_name(n)),
            counts,
            lists: [].into(),
        });
    }
    for (at, name) in ["pswpin", "pswpout"].into_iter().enumerate() {
        all.counts.insert(name.to_owned(), after[at] - before[at]);
    }
    // The kernel charges its own structures for child groups to the group with the limit.
    let top = counters::of_group(groups.path(0))?;
    for name in ["kernel", "current", "max"] {
        all.counts.insert(name.to_owned(), top[name]);
    }
    figures.push(all);
    drop(workers);
    Ok(figures)
}

/// Makes all touches of all tenants.
fn touch(turns: Turns, workers: &mut [Worker], watch: &mut Watch) -> Result<(), String> {
    let (are_listed, mut last) = (turns.are_listed(), None);
    for (burst, (tenant, nr)) in (1..).zip(turns) {
        let is_other = last.replace(tenant).is_some_and(|last| last != tenant);
        if are_listed && is_other {
            watch.wait(burst - 1)?;
        }
        workers[tenant]
            .order(nr)
            .map_err(|why| format!("{why} in burst {burst} ({FLUSHES}:{:?})", watch.seen()))?;
        watch.scan(burst)?;
    }
    Ok(())
}

/// Returns, for each group, the number of pages of kernel structures that are charged to it.
fn kernels(case: &Case, groups: &Groups) -> Result<Vec<u64>, String> {
    let of = |at| Ok(counters::of_group(groups.path(at))?["kernel"]);
    (0..case.groups.len()).map(of).collect()
}
