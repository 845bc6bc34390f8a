//! Tests of measured usage: limits and protection use it, and the sums in the tree stay correct.

use super::*;
use crate::folio::FolioId;
use crate::lruvec::Policy;
use crate::machine::shrink::tests::{Scripted, cold};
use crate::machine::{Machine, ReclaimRequest};
use crate::memcg::MemcgLimits;
use crate::units::Limit;
use crate::vmscan::{PageOut, ScanReason};

const ONE: MemcgId = MemcgId::FIRST;

fn pages(n: u64) -> Limit {
    Limit::of(Pages(n))
}

/// Reclaims a hundred pages from the whole machine; returns how many were reclaimed.
fn take(machine: &mut Machine, now: u64) -> Pages {
    let request = ReclaimRequest {
        reason: ScanReason::Background,
        nr: Pages(100),
        swappiness: None,
        now: Millis(now),
    };
    let shrunk = machine.reclaim_root(request, &mut Scripted::new(|_| PageOut::Stored));
    machine.check_invariants();
    shrunk.reclaimed
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

/// A host's control group is full of page cache: the pages that the engine knows are below the
/// limit, but the group's usage is above it.
#[test]
fn limits_use_the_measured_usage() {
    let mut machine = limited(1200, 1100);
    machine.set_measured(ONE, Pages(1500));
    assert_eq!(machine.tree().get(ONE).usage(), Pages(1500));
    assert_eq!(machine.tree().get(ONE).charged(), Pages(1000));
    let root = machine.tree().get(MemcgId::ROOT);
    assert_eq!(root.usage(), Pages(1500), "part of its parent's usage");
    machine.check_invariants();
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let result = machine.make_room(ONE, Pages(1), Millis(9), &mut memory);
    assert!(
        result.is_ok(),
        "known pages are reclaimed in place of the unknown ones"
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

/// Fewer pages were measured than counted, because shared pages are charged to other groups.
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

/// First two children are measured, then also their parent; then the parent's measurement ends, and
/// a child is removed.
#[test]
fn the_tree_stays_sound() {
    let mut machine = cold(64, Policy::default(), [1000, 0]);
    let parent = machine.create(MemcgId::ROOT, Millis(0));
    let [a, b] = [0; 2].map(|_| machine.create(parent, Millis(0)));
    let usage = |machine: &Machine, id| machine.tree().get(id).usage().0;
    machine.set_measured(a, Pages(70));
    machine.set_measured(b, Pages(30));
    assert_eq!(
        (usage(&machine, parent), usage(&machine, MemcgId::ROOT)),
        (100, 1100)
    );
    machine.set_measured(parent, Pages(250));
    assert_eq!(usage(&machine, MemcgId::ROOT), 1250);
    machine.set_measured(a, Pages(500));
    assert_eq!(usage(&machine, parent), 250, "it was measured itself");
    machine.check_invariants();
    machine.tree.set_measured(parent, None);
    assert_eq!(usage(&machine, parent), 530);
    machine.offline(a);
    assert!(!machine.tree().exists(a), "it had no page");
    assert_eq!(
        (usage(&machine, parent), usage(&machine, MemcgId::ROOT)),
        (30, 1030)
    );
    machine.check_invariants();
}

/// If memory.min covers the counted usage, but not the measured one, the tenant can be reclaimed
/// from.
#[test]
fn protection_uses_the_measured_usage() {
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

/// Regression: the command `reclaim / --older-than` took pages of all memcgs below the root, even
/// those that a tenant's memory.low protects.
#[test]
fn reclaim_by_age_of_an_ancestor_respects_a_tenants_protection() {
    let mut machine = cold(64, Policy::default(), [10, 0]);
    assert_eq!(machine.unprotected_from(MemcgId::ROOT, ONE), Pages(10));
    let limits = MemcgLimits {
        low: Pages(4),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    assert_eq!(machine.unprotected_from(MemcgId::ROOT, ONE), Pages(6));
    // In a reclaim of the memcg itself, its own min and low count, not the effective ones.
    assert_eq!(machine.unprotected_from(ONE, ONE), Pages(6));
    let child = machine.create(ONE, Millis(0));
    assert_eq!(machine.unprotected_from(MemcgId::ROOT, child), Pages(0));
}

/// Regression: a process was moved to a tenant, and then neither memory.reclaim nor a policy took
/// any of its pages. They were charged to another group, so the tenant's usage was zero, and all
/// its pages counted as protected.
#[test]
fn pages_charged_elsewhere_can_be_reclaimed_and_protected() {
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
    // Regression: any protection covered all pages of the memcg.
    let limits = MemcgLimits {
        low: Pages(400),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    let charged = machine.tree().get(ONE).charged();
    assert!(charged > Pages(700), "{charged:?}");
    assert_eq!(machine.unprotected(ONE), charged.less(Pages(400)));
}
