//! Tests of soft limits under both LRU policies and with each kind of walk.

use super::super::tests::{Simple, usage};
use super::super::{GlobalReclaim, MachineConfig};
use super::*;
use crate::active_inactive::Stage;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Policy};
use crate::memcg::{MemcgLimits, Segment};
use crate::units::{Limit, Millis};

const CLASSIC: Policy = Policy::ActiveInactive(Stage::Detection, Pages(10_000));

fn soft(pages: u64) -> MemcgLimits {
    MemcgLimits {
        soft: Limit::of(Pages(pages)),
        ..MemcgLimits::default()
    }
}

fn machine(policy: Policy, global: GlobalReclaim) -> Machine {
    let config = MachineConfig {
        policy,
        global,
        ..MachineConfig::default()
    };
    Machine::new(config, Millis(0))
}

/// Creates a child of `parent` with `pages` resident anon pages.
fn tenant(machine: &mut Machine, parent: MemcgId, limits: MemcgLimits, pages: u32) -> MemcgId {
    let id = machine.create(parent, Millis(0));
    machine.set_limits(id, limits);
    machine.lruvec_mut(id).ensure(pages as usize);
    for page in (0..pages).map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
    }
    id
}

fn reclaim(machine: &mut Machine, reason: ScanReason, nr: u64) -> u64 {
    let request = ReclaimRequest {
        reason,
        nr: Pages(nr),
        swappiness: None,
        now: Millis(1),
    };
    let shrunk = match machine.config.global {
        GlobalReclaim::MemcgLru => machine.reclaim_root(request, &mut Simple),
        GlobalReclaim::HeatLevel => machine.reclaim_by_heat(request, &mut Simple),
        GlobalReclaim::Iterator => machine.reclaim_subtree(MemcgId::ROOT, request, &mut Simple),
    };
    machine.check_invariants();
    shrunk.reclaimed.0
}

/// reclaim-control.md 3: the largest excess is reclaimed before general reclaim.
#[test]
fn the_largest_excess_is_reclaimed_first() {
    use GlobalReclaim::{HeatLevel, Iterator, MemcgLru};
    for global in [MemcgLru, HeatLevel, Iterator] {
        for reason in [ScanReason::Direct, ScanReason::Background] {
            let mut machine = machine(CLASSIC, global);
            let root = MemcgId::ROOT;
            let plain = tenant(&mut machine, root, MemcgLimits::default(), 2048);
            let small = tenant(&mut machine, root, soft(1600), 2048);
            let large = tenant(&mut machine, root, soft(1000), 2048);
            assert!(reclaim(&mut machine, reason, 300) >= 300);
            let all = [plain, small, large].map(|id| usage(&machine, id));
            assert_eq!((all[0], all[1]), (2048, 2048), "{global:?} {reason:?}");
            // The second reclaim takes the rest of both excesses (1048 and 448 pages) before it
            // takes any other page.
            assert!(reclaim(&mut machine, reason, 1000) >= 1000);
            let all = [plain, small, large].map(|id| usage(&machine, id));
            assert_eq!(all[0], 2048, "{global:?} {reason:?} {all:?}");
            assert!(all[1] < 2048 && all[2] >= 1000 - 64, "{all:?}");
            reclaim(&mut machine, reason, 1000);
            assert!(usage(&machine, plain) < 2048, "nothing else is left");
        }
    }
}

#[test]
fn ancestors_have_an_excess_too() {
    let mut machine = machine(CLASSIC, GlobalReclaim::Iterator);
    let plain = tenant(&mut machine, MemcgId::ROOT, MemcgLimits::default(), 2048);
    let parent = tenant(&mut machine, MemcgId::ROOT, soft(1024), 0);
    let child = tenant(&mut machine, parent, MemcgLimits::default(), 2048);
    reclaim(&mut machine, ScanReason::Direct, 500);
    assert_eq!(usage(&machine, plain), 2048);
    assert!(usage(&machine, child) <= 1548);
}

#[test]
fn min_and_memory_reclaim_ignore_soft_limits() {
    let mut machine = machine(CLASSIC, GlobalReclaim::Iterator);
    let plain = tenant(&mut machine, MemcgId::ROOT, MemcgLimits::default(), 2048);
    let over = MemcgLimits {
        min: Pages(4096),
        ..soft(100)
    };
    let safe = tenant(&mut machine, MemcgId::ROOT, over, 2048);
    reclaim(&mut machine, ScanReason::Direct, 500);
    assert_eq!(usage(&machine, safe), 2048, "covered by min");
    let open = tenant(&mut machine, MemcgId::ROOT, soft(100), 2048);
    let before = usage(&machine, plain);
    reclaim(&mut machine, ScanReason::Proactive, 200);
    assert!(usage(&machine, plain) < before && usage(&machine, open) < 2048);
}

/// memcg-lru.md 3, event 1, and 10, test 11: a check after every 1024th charge moves a memcg above
/// its soft limit to the head of its bin, once.
#[test]
fn with_the_multi_gen_lru_an_excess_moves_to_the_head() {
    for global in [GlobalReclaim::MemcgLru, GlobalReclaim::Iterator] {
        let mut machine = machine(Policy::default(), global);
        let (root, few) = (MemcgId::ROOT, SOFT_LIMIT_EVENTS - 1);
        let early = tenant(&mut machine, root, soft(100), few);
        let over = tenant(&mut machine, root, soft(100), few + 1);
        let under = tenant(&mut machine, root, soft(5000), few + 1);
        let lru = machine.memcg_lru();
        let segments = [early, over, under].map(|id| lru.segment(id));
        let expect = [Segment::Default, Segment::Head, Segment::Default];
        assert_eq!(segments, expect, "checked once in 1024 charges");
        let bin = lru.bin(lru.old_slot(), lru.bin_of(over).expect("online"));
        assert_eq!(bin.first(), Some(&over));
        let at = lru.bin_of(over);
        assert!(machine.soft.by_excess.is_empty(), "and no more than that");
        machine.lruvec_mut(over).ensure(3000);
        for page in (few + 1..3000).map(FolioId) {
            machine.fault_in(over, page, FolioType::Anon, FaultKind::Refault, true);
        }
        assert_eq!(machine.memcg_lru().bin_of(over), at, "moved only once");
    }
}

#[test]
#[should_panic(expected = "order of excess")]
fn canary_a_memcg_is_ordered_by_a_former_excess() {
    let mut machine = machine(CLASSIC, GlobalReclaim::Iterator);
    let id = tenant(&mut machine, MemcgId::ROOT, soft(100), 2048);
    machine.soft.sample(id).excess += 1;
    machine.check_invariants();
}

/// Regression: a host measures usage instead of counting each charge. A soft limit that was set
/// after the tenant's pages were known had no effect.
#[test]
fn measured_usage_counts() {
    let mut machine = machine(Policy::default(), GlobalReclaim::MemcgLru);
    let id = tenant(&mut machine, MemcgId::ROOT, MemcgLimits::default(), 64);
    machine.set_limits(id, soft(100));
    machine.set_measured(id, Pages(100));
    assert_ne!(machine.memcg_lru.segment(id), Segment::Head);
    machine.set_measured(id, Pages(101));
    assert_eq!(machine.memcg_lru.segment(id), Segment::Head);
    machine.check_invariants();
}
