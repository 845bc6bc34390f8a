//! Tests of levels that reclaim sees only as of the last flush of the statistics.
//! spec: rstat.md 6.3.

use super::*;

fn late_family() -> Family {
    let mut family = Family::new(CLASSIC);
    family.machine.hierarchy.is_late = true;
    family
}

/// Creates a family with ten inactive pages, and `nr_active` active pages in one child.
fn short_inactive_list(nr_active: u32) -> Family {
    let mut family = late_family();
    family.fill(0, 0..10, Anon);
    family.fill_active(0, 10..10 + nr_active, Anon);
    family
}

/// Whether a pass over `target` would deactivate anon pages.
fn deactivates(family: &mut Family, target: MemcgId, now: u64) -> bool {
    let request = ReclaimRequest {
        now: Millis(now),
        ..Family::request(32, ScanReason::Direct)
    };
    let prepared = family.machine.prepare(target, (request, 12), false);
    prepared.expect("classic").may_deactivate[Anon.index()]
}

#[test]
fn a_short_list_is_seen_at_the_periodic_flush() {
    let mut family = short_inactive_list(30);
    let parent = family.parent;
    assert!(!deactivates(&mut family, parent, 1));
    assert!(!family.machine.flush_stats_if_due(Millis(1999)));
    assert!(!deactivates(&mut family, parent, 1999));
    assert!(family.machine.flush_stats_if_due(Millis(2000)));
    assert!(deactivates(&mut family, parent, 2000));
    family.fill(0, 40..100, Anon);
    assert!(deactivates(&mut family, parent, 3999), "as it was");
    assert!(family.machine.flush_stats_if_due(Millis(4000)));
    assert!(!deactivates(&mut family, parent, 4000));
    family.machine.check_invariants();
}

#[test]
fn reclaim_flushes_itself_if_the_periodic_flush_is_late() {
    let mut family = short_inactive_list(190);
    let parent = family.parent;
    assert!(!deactivates(&mut family, parent, 4000));
    assert!(deactivates(&mut family, parent, 4001));
}

#[test]
fn a_users_read_flushes_what_it_reads() {
    let mut family = short_inactive_list(190);
    let parent = family.parent;
    let _ = family.machine.memory_stat(parent);
    assert!(deactivates(&mut family, parent, 1));
    assert!(!deactivates(&mut family, MemcgId::ROOT, 1));
}

/// Regression: rstat.md 6.3. A read of memory.events flushed the statistics, but reclaim still saw
/// the older levels: the read did not make the flushed values visible to it.
#[test]
fn a_read_of_events_shows_what_it_flushes() {
    let mut family = short_inactive_list(190);
    let parent = family.parent;
    let _ = family.machine.memory_events(parent);
    assert!(deactivates(&mut family, parent, 1));
    assert!(!deactivates(&mut family, MemcgId::ROOT, 1));
    let _ = family.machine.memory_events_local(parent);
    assert!(!deactivates(&mut family, MemcgId::ROOT, 2), "no flush");
}

#[test]
fn an_activation_counts_once_it_was_flushed() {
    let mut family = late_family();
    let parent = family.parent;
    family.machine.hierarchy.node(parent).level.activations[Anon.index()] += 1;
    family.machine.snapshot(parent);
    assert!(!deactivates(&mut family, parent, 1));
    family.machine.flush_stats_if_due(Millis(2000));
    assert!(deactivates(&mut family, parent, 2000));
    family.machine.snapshot(parent);
    assert!(!deactivates(&mut family, parent, 2001));
}

#[test]
#[should_panic(expected = "activations of")]
fn canary_activations_that_never_were() {
    let mut family = late_family();
    let node = family.machine.hierarchy.node(family.parent);
    node.flushed.activations[0] += 1;
    family.machine.check_invariants();
}
