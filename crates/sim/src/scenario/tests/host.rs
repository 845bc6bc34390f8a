//! Tests reclaim as `serve` does it on a host: `reclaim = "host"`.

use super::*;
use engine::memcg::MemcgEvent;
use engine::{Aging, MachineConfig};

const HOST: [&str; 2] = ["run.reclaim=host", "run.age-every=1s"];

/// A tenant that memory.low protects, and another tenant that has twice as much cold memory as is
/// requested.
const TIGHT: &str = r#"
run = { duration = "20s" }
[[tenant]]
name = "low"
memory-low = "8M"
work = [{ pattern = "loop", size = "8M", rate = 500 }]
[[tenant]]
name = "idle"
work = [{ pattern = "scan", size = "16M", rate = 4096 }]
[[reclaim]]
size = "8M"
start = "10s"
"#;

#[test]
fn oracles_agree_with_reclaim_of_a_host() {
    for bits in ["engine", "page-tables"] {
        for global in ["memcg-lru", "heat-level", "iterator"] {
            let set = [
                format!("run.accessed-bits={bits}"),
                format!("run.global={global}"),
            ];
            let set: Vec<&str> = set.iter().map(String::as_str).chain(HOST).collect();
            let world = checked(&set);
            assert!(world.guests.iter().any(|guest| guest.counts.pgsteal > 0));
        }
    }
}

/// The simulated machine has the same settings as that of `serve`.
#[test]
fn the_machine_is_that_of_a_host() {
    let config = |set: &[&str]| World::new(&plans(TIGHT, set).runs[0]).machine.config();
    let (of, host) = (config(&HOST), MachineConfig::of_host());
    assert_eq!(
        (of.batch, of.low_last, of.in_turn, of.aging, of.vain_passes),
        (2048, true, true, Aging::ByScans, true)
    );
    assert_eq!((of.global, of.batch), (host.global, host.batch));
    let kernel = config(&[]);
    assert!(kernel.batch == 64 && !kernel.low_last && !kernel.in_turn);
}

/// A host reclaims before a limit is reached, so a program hardly ever reaches it.
#[test]
fn a_host_reclaims_ahead_of_limits() {
    let text = r#"
        run = { duration = "20s" }
        [[tenant]]
        name = "parent"
        memory-max = "16M"
        [[tenant]]
        name = "child"
        parent = "parent"
        count = 2
        work = [{ pattern = "uniform", size = "16M", rate = 2000 }]
    "#;
    let met = |set: &[&str]| {
        let world = ended(text, set);
        let parent = world.guests[0].memcg.expect("it is there");
        let max = world
            .machine
            .memory_events_local(parent)
            .get(MemcgEvent::Max);
        (
            max,
            world.guests.iter().map(|g| g.counts.pgsteal).sum::<u64>(),
        )
    };
    let (kernel, host) = (met(&[]), met(&HOST));
    assert!(kernel.0 > 0 && host.0 == 0, "{kernel:?} {host:?}");
    assert!(host.1 > 0, "{host:?}");
}

/// A host takes from a tenant below memory.low only if no other tenant has pages to take. The
/// kernel's memcg LRU only skips such a tenant once.
#[test]
fn a_host_takes_below_low_last() {
    let taken = |set: &[&str]| ended(TIGHT, set).guests[0].counts.pgsteal;
    assert_eq!(taken(&HOST), 0);
    assert!(taken(&["run.age-every=1s"]) > 0);
}

#[test]
fn settings_that_serve_lacks_are_refused() {
    for (set, what) in [
        ("run.age-every=1s", ""),
        ("run.reclaim=host", "reclaim = \"host\" without age-every"),
    ] {
        assert!(complaint(TIGHT, &[set]).contains(what), "{set}");
    }
    for (set, what) in [
        (
            "run.policy=multi-gen-6.3",
            "with another policy than multi-gen",
        ),
        (
            "run.policy=active-inactive",
            "with another policy than multi-gen",
        ),
        ("run.memcg-lru=seed", "with memcg-lru = \"seed\""),
        ("run.reclaimers=2", "with several reclaimers"),
    ] {
        let complaint = complaint(TIGHT, &[HOST[0], HOST[1], set]);
        assert!(complaint.contains(what), "{set}: {complaint}");
    }
    assert!(complaint(TIGHT, &["run.reclaim=guest"]).contains("host"));
}
