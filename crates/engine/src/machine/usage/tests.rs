//! Usage as measured: limits and protection go by it, and the tree stays sound.

use super::*;
use crate::folio::FolioId;
use crate::lruvec::Policy;
use crate::machine::shrink::tests::{Scripted, cold};
use crate::machine::{Machine, ReclaimRequest};
use crate::memcg::MemcgLimits;
use crate::units::{Bytes, Limit};
use crate::vmscan::{PageOut, ScanReason};

const ONE: MemcgId = MemcgId::FIRST;

fn pages(n: u64) -> Limit {
    Limit::Bytes(Bytes(n * 4096))
}

/// What a reclaim of a hundred pages of all takes.
fn take(machine: &mut Machine, now: u64) -> Pages {
    let request = ReclaimRequest {
        reason: ScanReason::Background,
        nr: Pages(100),
        swappiness: None,
        now: Millis(now),
    };
    let got = machine.reclaim_root(request, &mut Scripted::new(|_| PageOut::Stored));
    machine.check_invariants();
    got.reclaimed
}

fn limited(max: u64, high: u64) -> Machine {
    let mut machine = cold(64, Policy::default(), [1000, 0]);
    let limits = MemcgLimits {
        max: pages(max),
        high: pages(high),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    machine
}

/// A host's page cache fills the group: the pages we know are below the limit, the group is not.
#[test]
fn limits_go_by_what_was_measured() {
    let mut machine = limited(1200, 1100);
    machine.set_measured(ONE, Pages(1500));
    assert_eq!(machine.tree().get(ONE).usage(), Pages(1500));
    assert_eq!(machine.tree().get(ONE).charged(), Pages(1000));
    let root = machine.tree().get(MemcgId::ROOT);
    assert_eq!(root.usage(), Pages(1500), "its parent's usage holds it");
    machine.check_invariants();
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let made = machine.make_room(ONE, Pages(1), Millis(9), &mut memory);
    assert!(
        made.is_ok(),
        "what can go makes room for what cannot be seen"
    );
    assert!(machine.tree().get(ONE).usage() < Pages(1200));
    assert_eq!(machine.enforce_limits(ONE, Millis(9), &mut memory), Ok(()));
    let used = machine.tree().get(ONE).usage();
    assert!(used <= Pages(1100), "{used:?} with a high of 1,100");
    machine.check_invariants();
    machine.tree.set_measured(ONE, None);
    let memcg = machine.tree().get(ONE);
    assert_eq!(memcg.usage(), memcg.charged());
    machine.check_invariants();
}

#[test]
fn without_limits_nothing_is_over() {
    let mut machine = cold(64, Policy::default(), [10, 0]);
    machine.set_measured(ONE, Pages(u64::MAX / 4));
    let mut memory = Scripted::new(|_| PageOut::Stored);
    assert_eq!(machine.enforce_limits(ONE, Millis(9), &mut memory), Ok(()));
    assert!(memory.batches.is_empty());
    machine.check_invariants();
}

/// Fewer were measured than counted: shared pages are charged to others.
#[test]
fn less_than_counted() {
    let mut machine = limited(2000, 2000);
    machine.set_measured(ONE, Pages(300));
    assert_eq!(machine.tree().get(ONE).usage(), Pages(300));
    machine.unmap_range(ONE, FolioId(0), 1000);
    assert_eq!(
        machine.tree().get(ONE).usage(),
        Pages(0),
        "not below nothing"
    );
    machine.check_invariants();
}

/// The parent of measured and counted children; then a measurement of its own; then they go.
#[test]
fn the_tree_stays_sound() {
    let mut machine = cold(64, Policy::default(), [1000, 0]);
    let slice = machine.create(MemcgId::ROOT, Millis(0));
    let [a, b] = [0; 2].map(|_| machine.create(slice, Millis(0)));
    let usage = |machine: &Machine, id| machine.tree().get(id).usage().0;
    machine.set_measured(a, Pages(70));
    machine.set_measured(b, Pages(30));
    assert_eq!(
        (usage(&machine, slice), usage(&machine, MemcgId::ROOT)),
        (100, 1100)
    );
    machine.set_measured(slice, Pages(250));
    assert_eq!(usage(&machine, MemcgId::ROOT), 1250);
    machine.set_measured(a, Pages(500));
    assert_eq!(usage(&machine, slice), 250, "it was measured itself");
    machine.check_invariants();
    machine.tree.set_measured(slice, None);
    assert_eq!(usage(&machine, slice), 530);
    machine.offline(a);
    assert!(!machine.tree().exists(a), "it had no page");
    assert_eq!(
        (usage(&machine, slice), usage(&machine, MemcgId::ROOT)),
        (30, 1030)
    );
    machine.check_invariants();
}

/// min covers what the engine counts, and not what was measured: the tenant is fair game.
#[test]
fn protection_goes_by_what_was_measured() {
    let mut machine = cold(64, Policy::default(), [1000, 0]);
    let limits = MemcgLimits {
        min: Pages(1000),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    assert_eq!(take(&mut machine, 10), Pages(0));
    machine.set_measured(ONE, Pages(1500));
    assert!(take(&mut machine, 11) >= Pages(100));
}

/// (The story: `reclaim / --older-than` took a step of the root that reached all below it, and by it what a tenant's low protects.)
#[test]
fn what_a_tenant_protects_is_no_reclaim_by_age_of_those_above() {
    let mut machine = cold(64, Policy::default(), [10, 0]);
    assert_eq!(machine.unprotected_from(MemcgId::ROOT, ONE), Pages(10));
    let limits = MemcgLimits {
        low: Pages(4),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    assert_eq!(machine.unprotected_from(MemcgId::ROOT, ONE), Pages(6));
    // Whoever asks it alone goes by its own limits as they stand.
    assert_eq!(machine.unprotected_from(ONE, ONE), Pages(6));
    let child = machine.create(ONE, Millis(0));
    assert_eq!(machine.unprotected_from(MemcgId::ROOT, child), Pages(0));
}

/// The story: a process was moved to a tenant, as the how-to says, and memory.reclaim took nothing, nor did a policy: it was charged elsewhere, and of
/// nothing all was protected.
#[test]
fn what_is_charged_elsewhere_can_be_taken_and_protected() {
    let mut machine = cold(64, Policy::default(), [1000, 0]);
    machine.set_measured(ONE, Pages(0));
    assert_eq!(machine.unprotected(ONE), Pages(1000));
    assert!(take(&mut machine, 10) >= Pages(100));
    let limits = MemcgLimits {
        min: Pages(2000),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    machine.set_measured(ONE, Pages(0));
    assert_eq!(take(&mut machine, 11), Pages(0));
    assert_eq!(machine.unprotected(ONE), Pages(0));
    // (The story, of a reading: any protection covered all of it.)
    let limits = MemcgLimits {
        low: Pages(400),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    let has = machine.tree().get(ONE).charged();
    assert!(has > Pages(700), "{has:?}");
    assert_eq!(machine.unprotected(ONE), has.less(Pages(400)));
}
