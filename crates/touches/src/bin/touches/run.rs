//! One run of one workload: its groups, a worker for each tenant, and turns.
//!
//! Invariants: one worker is at work at a time, and after each burst it is this process's turn: the one processor
//! switches address spaces twice; what is counted is read while the workers are still there.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use touches::case::Case;
use touches::figures::{Figures, Key};
use touches::turns::Turns;

use crate::groups::{Groups, read, write};
use crate::{counters, worker};

const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";
/// Stands for all tenants together.
const ALL: &str = "all";

/// What every run depends on; whoever boots the machine has seen to the rest. Nothing is changed on a machine that is not
/// made for this.
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

/// What was counted of each tenant, and of all.
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
    for (tenant, nr) in Turns::new(case, burst) {
        workers[tenant].order(nr)?;
    }
    let after = counters::swapped()?;
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
    };
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
        });
    }
    for (at, name) in ["pswpin", "pswpout"].into_iter().enumerate() {
        all.counts.insert(name.to_owned(), after[at] - before[at]);
    }
    // The group with the limit holds more than its tenants: the kernel charges it for its children.
    let top = counters::of_group(groups.path(0))?;
    for name in ["kernel", "current", "max"] {
        all.counts.insert(name.to_owned(), top[name]);
    }
    figures.push(all);
    drop(workers);
    Ok(figures)
}

/// A tenant's process, killed and waited for when this is dropped.
struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: ChildStdout,
    checksum: u64,
}

impl Worker {
    /// Starts a worker and waits until it is in its group.
    fn start(case: &Case, (tenant, seed): (usize, u64), group: &Path) -> Result<Worker, String> {
        let mut child = Command::new("/proc/self/exe")
            .args([
                worker::ARGUMENT,
                case.name,
                &tenant.to_string(),
                &seed.to_string(),
            ])
            .arg(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a worker: {error}"))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or("a worker without pipes")?;
        let mut worker = Worker {
            child,
            orders,
            answers,
            checksum: 0,
        };
        worker.wait()?;
        Ok(worker)
    }

    /// Lets it touch `nr` pages.
    fn order(&mut self, nr: u64) -> Result<(), String> {
        self.orders
            .write_all(&nr.to_le_bytes())
            .map_err(|error| format!("a worker is gone: {error}"))?;
        self.wait()
    }

    fn wait(&mut self) -> Result<(), String> {
        let mut word = [0; worker::WORD];
        self.answers
            .read_exact(&mut word)
            .map_err(|error| format!("a worker has ended early: {error}"))?;
        self.checksum = u64::from_le_bytes(word);
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
