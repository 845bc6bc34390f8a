//! The numbered tests of heat-level.md 7 that need memory.

use super::*;
use crate::active_inactive::Stage;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Policy};
use crate::machine::tests::{Simple, protect, request, usage};
use crate::machine::{GlobalReclaim, MachineConfig, Ongoing};
use crate::units::{Millis, Swappiness};
use crate::vmscan::{PageOut, ScanReason};
use alloc::vec::Vec;

const CLASSIC: Policy = Policy::ActiveInactive(Stage::Detection, Pages(1 << 18));

/// Creates tenants whose pages can be evicted.
fn tenants(policy: Policy, nr: u32, pages: u32) -> (Machine, Vec<MemcgId>) {
    let config = MachineConfig {
        policy,
        global: GlobalReclaim::HeatLevel,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let ids: Vec<MemcgId> = (0..nr).map(|_| tenant(&mut machine, pages)).collect();
    machine.check_invariants();
    (machine, ids)
}

fn tenant(machine: &mut Machine, pages: u32) -> MemcgId {
    let id = machine.create(MemcgId::ROOT, Millis(0));
    machine.lruvec_mut(id).ensure(pages as usize);
    for page in (0..pages).map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::Readahead, true);
    }
    (0..2).for_each(|_| machine.age(id, Millis(0)));
    id
}

/// Gives a tenant the highest heat, by visits that found no page to try.
fn heat_up(machine: &mut Machine, id: MemcgId) {
    let visit = HeatVisit {
        tried: 0,
        reclaimed: Pages(0),
        refaults: 0,
    };
    (0..2).for_each(|_| machine.heat.visited(id, visit, Millis(1)));
    assert_eq!(machine.heat.heat(id), 12);
}

/// Makes one walk at the highest pressure; returns the level of the round in which it ended.
fn last_round(machine: &mut Machine, nr: u64) -> HeatLevel {
    let mut walk = machine.heat_walk(true, false);
    let pass = HeatPass {
        request: request(nr),
        priority: 0,
        deactivate: false,
        low: false,
        prepared: None,
    };
    while let Some(id) = machine.next_by_heat(&mut walk) {
        machine.shrink_by_heat((id, None), (&mut walk, pass), &mut Simple);
    }
    walk.level
}

/// heat-level.md 7, test 5; under both policies. The lists need 4,096 pages or more: shorter lists
/// have no page to try at the first priority, and all memcgs would become hot.
#[test]
fn test_05_hot_memcgs_are_reclaimed_from_last() {
    for (policy, pages, few) in [(Policy::default(), 1000, 100), (CLASSIC, 65_536, 4)] {
        let (mut machine, ids) = tenants(policy, 3, pages);
        heat_up(&mut machine, ids[0]);
        let pages = u64::from(pages);
        let shrunk = machine.reclaim_by_heat(request(few), &mut Simple);
        assert!(shrunk.reclaimed >= Pages(few), "{policy:?} {shrunk:?}");
        assert_eq!(usage(&machine, ids[0]), pages, "{policy:?}");
        // The request is for more pages than the cold memcgs have.
        let shrunk = machine.reclaim_by_heat(request(2 * pages), &mut Simple);
        assert!(
            shrunk.reclaimed >= Pages(2 * pages),
            "{policy:?} {shrunk:?}"
        );
        assert!(usage(&machine, ids[0]) < pages, "{policy:?}");
        machine.check_invariants();
    }
}

/// heat-level.md 7, test 6: a protected memcg is no reason for another round.
#[test]
fn test_06_protected_memcgs_cause_no_round() {
    let (mut machine, ids) = tenants(Policy::default(), 2, 100);
    protect(&mut machine, ids[0], 100, 0);
    heat_up(&mut machine, ids[0]);
    assert_eq!(last_round(&mut machine, 10_000), HeatLevel::Cold);
    protect(&mut machine, ids[0], 0, 100);
    assert_eq!(last_round(&mut machine, 10_000), HeatLevel::Cold);
    assert_eq!(usage(&machine, ids[0]), 100);
    protect(&mut machine, ids[0], 0, 0);
    assert_eq!(last_round(&mut machine, 10_000), HeatLevel::Hot);
    assert!(usage(&machine, ids[0]) < 100);
}

/// heat-level.md 4, rule 2: a memcg below low is reclaimed from only after all others have yielded
/// nothing; a memcg below min never is.
#[test]
fn a_memcg_below_low_is_reclaimed_from_if_others_yield_nothing() {
    let (mut machine, ids) = tenants(Policy::default(), 2, 1000);
    protect(&mut machine, ids[0], 0, 1000);
    protect(&mut machine, ids[1], 1000, 0);
    let shrunk = machine.reclaim_by_heat(request(200), &mut Simple);
    assert!(shrunk.reclaimed >= Pages(200), "{shrunk:?}");
    let low = machine.memory_events_local(ids[0]).get(MemcgEvent::Low);
    assert!(low > 0 && usage(&machine, ids[0]) < 1000);
    assert_eq!(usage(&machine, ids[1]), 1000);
}

/// heat-level.md 7, test 7: a memcg whose size is zero at the priority keeps its heat; but only
/// with generations. A classic list of that size is scanned nevertheless.
#[test]
fn test_07_a_memcg_that_is_too_small_keeps_its_heat() {
    let (mut machine, ids) = tenants(Policy::default(), 1, 100);
    let mut walk = |priority| {
        let mut reclaimer = machine.heat_reclaimer_at(priority);
        while machine.step(&mut reclaimer, &mut Simple).is_some() {}
        machine.finish(reclaimer);
        (machine.heat.heat(ids[0]), usage(&machine, ids[0]))
    };
    assert_eq!(walk(7), (0, 100), "100 >> 7 is 0");
    assert!(walk(6).1 < 100);
    let (mut machine, ids) = tenants(CLASSIC, 1, 100);
    let mut reclaimer = machine.heat_reclaimer_at(7);
    while machine.step(&mut reclaimer, &mut Simple).is_some() {}
    assert_eq!(machine.heat.heat(ids[0]), 11, "no page was tried");
}

impl Machine {
    fn heat_reclaimer_at(&mut self, priority: u32) -> crate::machine::Reclaimer {
        self.reclaimer(MemcgId::ROOT, request(50), priority)
    }
}

/// heat-level.md 7, test 8; a full walk (background) begins at the first memcg each time.
#[test]
fn test_08_walks_go_on_where_the_last_one_ended() {
    for (reason, distinct) in [(ScanReason::Direct, 6), (ScanReason::Background, 1)] {
        let (mut machine, ids) = tenants(Policy::default(), 6, 4000);
        for _ in 0..6 {
            let request = ReclaimRequest {
                reason,
                ..request(64)
            };
            let shrunk = machine.reclaim_by_heat(request, &mut Simple);
            assert!(shrunk.reclaimed >= Pages(64), "{shrunk:?}");
        }
        let taken = ids.iter().filter(|id| usage(&machine, **id) < 4000).count();
        assert_eq!(taken, distinct, "{reason:?}");
    }
}

/// heat-level.md 7, test 9, and I4: when a memcg is removed, its heat is forgotten.
#[test]
fn test_09_the_id_of_a_released_memcg_begins_cold() {
    let (mut machine, ids) = tenants(Policy::default(), 2, 100);
    heat_up(&mut machine, ids[0]);
    machine.unmap_range(ids[0], FolioId(0), 100);
    machine.offline(ids[0]);
    let again = tenant(&mut machine, 100);
    assert_eq!((again, machine.heat.heat(again)), (ids[0], 0));
}

/// heat-level.md 5: a visit that tries no page, because it only drops empty generations or opens
/// one, makes a memcg hotter.
#[test]
fn a_visit_that_tries_no_page_makes_hot() {
    for empty_generations in [true, false] {
        let (mut machine, ids) = tenants(Policy::default(), 1, 0);
        machine.lruvec_mut(ids[0]).ensure(100);
        for page in (0..100).map(FolioId) {
            let kind = FaultKind::Refault;
            machine.fault_in(ids[0], page, FolioType::Anon, kind, true);
        }
        if !empty_generations {
            let budget = crate::lru_gen::IsolateBudget::default();
            let (lruvec, none) = (machine.lruvec_mut(ids[0]), &mut Vec::new());
            lruvec.isolate(ScanReason::Direct, Swappiness::default(), budget, none);
        }
        let mut reclaimer = machine.heat_reclaimer_at(0);
        while machine.step(&mut reclaimer, &mut Simple).is_some() {}
        let shrunk = machine.finish(reclaimer);
        assert_eq!(
            (shrunk.aged, shrunk.tried()),
            (!empty_generations, 0),
            "{shrunk:?}"
        );
        assert_eq!(machine.heat.heat(ids[0]), 11);
    }
}

/// A memory that stores one page in five, and wants a pause after each batch.
struct PausesAfterEachBatch;

impl Memory for PausesAfterEachBatch {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn wants_pause(&mut self) -> bool {
        true
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|id| match id.0 % 5 {
            0 => PageOut::Stored,
            _ => PageOut::Busy,
        }));
    }
}

/// heat-level.md 5: a visit counts once, however many slices it takes.
#[test]
fn a_visit_in_slices_counts_once() {
    let (mut machine, ids) = tenants(Policy::default(), 1, 4000);
    let mut ongoing = Ongoing::once(MemcgId::ROOT, request(100));
    let mut slices = 1;
    while !machine.resume(&mut ongoing, Millis(1), &mut PausesAfterEachBatch) {
        slices += 1;
        // A fifth of the pages was reclaimed: heat + 1; no refaults: heat - 1.
        assert_eq!(machine.heat.heat(ids[0]), 0);
    }
    assert!(slices > 5, "{slices}");
    assert!(ongoing.reclaimed() >= Pages(100));
}

/// heat-level.md 5: with batches larger than the kernel's, a walk takes no more than its request,
/// and from each memcg no more than its size implies.
#[test]
fn large_batches_take_what_is_requested() {
    let (mut machine, ids) = tenants(Policy::default(), 4, 4000);
    machine.config.batch = 2048;
    let shrunk = machine.reclaim_by_heat(request(1000), &mut Simple);
    assert_eq!(shrunk.reclaimed, Pages(1000));
    let remaining = ids.iter().map(|id| usage(&machine, *id));
    assert!(
        remaining.clone().all(|remaining| remaining >= 3500),
        "{:?}",
        remaining.collect::<Vec<_>>()
    );
}
