//! Tests of reclaim from one tenant, whose accessed bits are those in the engine's lruvec.
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::lru_gen::ByAgeCursor;
use engine::machine::{OomAt, ReclaimRequest};
use engine::memcg::{MemcgEvent, MemcgLimits};
use engine::vmscan::{PageEnd, TryAgain};
use engine::vmstat::VmEvent;
use engine::workingset_report::{Aggregation, Bins};
use engine::{
    FaultKind, FolioId, FolioType, Limit, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, Policy, ScanReason,
};

/// A memory in which page-out of the pages in `busy` fails, and that of all others succeeds.
#[derive(Default)]
struct Simple {
    busy: std::ops::Range<u32>,
    order: Vec<u32>,
}

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        for id in batch {
            let busy = self.busy.contains(&id.0);
            outcome.push(if busy { PageOut::Busy } else { PageOut::Stored });
            self.order.push(id.0);
        }
    }
}

const ONE: MemcgId = MemcgId::FIRST;

/// Creates a machine with one tenant that has `pages` page ids.
fn engine(pages: u32, limits: MemcgLimits) -> Machine {
    let mut machine = Machine::of_one(MachineConfig::default(), limits, Millis(0));
    machine.lruvec_mut(ONE).ensure(pages as usize);
    machine
}

/// Returns a request to reclaim `nr` pages proactively.
fn proactive(nr: Pages, now: Millis) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Proactive, nr, now)
}

fn fault(machine: &mut Machine, ids: std::ops::Range<u32>) {
    for id in ids.map(FolioId) {
        machine.fault_in(ONE, id, FolioType::Anon, FaultKind::Refault, true);
    }
}

/// Returns a limit of `n` pages.
fn pages(n: u64) -> Limit {
    Limit::of(Pages(n))
}

/// A charge that would exceed memory.max first tries to reclaim, and then fails.
///
/// reclaim-control.md 11, test 7.
#[test]
fn a_charge_over_max_with_nothing_to_reclaim() {
    let mut machine = engine(
        101,
        MemcgLimits {
            max: pages(100),
            ..MemcgLimits::default()
        },
    );
    fault(&mut machine, 0..100);
    let mut memory = Simple {
        busy: 0..101,
        ..Simple::default()
    };
    assert_eq!(
        machine.make_room(ONE, Pages(1), Millis(1), &mut memory),
        Err(OomAt { at: ONE })
    );
    let events = machine.tree().get(ONE).events();
    assert_eq!(
        (events.get(MemcgEvent::Max), events.get(MemcgEvent::Oom)),
        (1, 1)
    );
    assert!(!memory.order.is_empty(), "it tried");
    machine.check_invariants();
}

#[test]
fn a_charge_over_max_reclaims() {
    let mut machine = engine(
        200,
        MemcgLimits {
            max: pages(100),
            ..MemcgLimits::default()
        },
    );
    let mut memory = Simple::default();
    for id in 0..200 {
        machine
            .make_room(ONE, Pages(1), Millis(u64::from(id)), &mut memory)
            .expect("room");
        fault(&mut machine, id..id + 1);
        assert!(machine.tree().get(ONE).usage() <= Pages(100));
        machine.check_invariants();
    }
    assert_eq!(machine.tree().get(ONE).events().get(MemcgEvent::Oom), 0);
    assert_eq!(
        memory.order[..32],
        (0..32).collect::<Vec<_>>(),
        "the coldest first"
    );
}

/// Proactive reclaim fails if there are no pages, and counts no event of a limit.
///
/// reclaim-control.md 11, test 8, and I8.
#[test]
fn proactive_reclaim_takes_at_least_what_is_requested() {
    let mut machine = engine(100, MemcgLimits::default());
    let mut memory = Simple::default();
    let empty = machine.proactive_reclaim(ONE, proactive(Pages(32), Millis(1)), &mut memory);
    assert_eq!(
        empty,
        Err(TryAgain {
            reclaimed: Pages(0)
        })
    );
    fault(&mut machine, 0..100);
    let reclaimed = machine
        .proactive_reclaim(ONE, proactive(Pages(32), Millis(2)), &mut memory)
        .expect("cold");
    assert!(reclaimed >= Pages(32));
    assert_eq!(
        machine.lruvec(ONE).stat().get(VmEvent::PgstealProactive),
        reclaimed.0
    );
    assert_eq!(machine.lruvec(ONE).stat().pgsteal(), reclaimed.0);
    for event in MemcgEvent::ALL {
        assert_eq!(
            machine.tree().get(ONE).events().get(event),
            0,
            "{}",
            event.name()
        );
    }
    machine.check_invariants();
}

/// With memory.swap.max 0 no anonymous page is evicted: reclaim-control.md 11, test 13, for one
/// tenant.
#[test]
fn without_swap_only_file_pages_are_evicted() {
    let mut machine = engine(
        200,
        MemcgLimits {
            swap_max: pages(0),
            ..MemcgLimits::default()
        },
    );
    fault(&mut machine, 0..100);
    for id in (100..200).map(FolioId) {
        machine.fault_in(ONE, id, FolioType::File, FaultKind::Readahead, true);
    }
    let mut memory = Simple::default();
    let result = machine.proactive_reclaim(ONE, proactive(Pages(100), Millis(1)), &mut memory);
    assert_eq!(result, Ok(Pages(100)));
    assert!(memory.order.iter().all(|&id| id >= 100));
    let events = machine.tree().get(ONE).events();
    assert!(events.get(MemcgEvent::SwapFail) > 0 && events.get(MemcgEvent::SwapMax) > 0);
    assert_eq!(machine.tree().get(ONE).swap_usage(), Pages(0));
    machine.check_invariants();
}

/// Pages touched between walks stay in memory; others are evicted.
#[test]
fn hot_pages_stay_and_cold_pages_are_evicted() {
    let mut machine = engine(1000, MemcgLimits::default());
    fault(&mut machine, 0..1000);
    let mut memory = Simple::default();
    for now in 1..5 {
        (0..200).for_each(|id| assert!(machine.lruvec_mut(ONE).touch(FolioId(id))));
        machine.walk_and_age(ONE, Millis(now * 1000), &mut memory);
        machine.check_invariants();
    }
    let mut batch = Vec::new();
    machine.isolate(ONE, 1000, ScanReason::Background, &mut batch);
    assert_eq!(batch.len(), 800);
    assert!(batch.iter().all(|id| id.0 >= 200));
    for id in batch {
        assert!(
            machine.finish_page(ONE, id, (PageOut::Stored, ScanReason::Background))
                == PageEnd::Left
        );
        assert!(
            machine.finish_page(ONE, id, (PageOut::Stored, ScanReason::Background))
                != PageEnd::Left,
            "only once"
        );
    }
    assert_eq!(machine.lruvec(ONE).resident(), Pages(200));
    machine.check_invariants();
}

#[test]
fn by_age_all_but_the_two_youngest_generations_are_offered() {
    let mut machine = engine(300, MemcgLimits::default());
    fault(&mut machine, 0..100);
    let mut memory = Simple::default();
    let offered = |machine: &mut Machine| {
        let mut batch = Vec::new();
        let limits = (1000, &mut ByAgeCursor::default());
        machine.isolate_by_age(ONE, limits, &mut batch);
        batch.iter().map(|id| id.0).collect::<Vec<_>>()
    };
    assert_eq!(offered(&mut machine), [0u32; 0], "all are new");
    for last in [100, 200] {
        machine.walk_and_age(ONE, Millis(100 * u64::from(last)), &mut memory);
        fault(&mut machine, last..last + 100);
        let old: Vec<u32> = (last - 100..last).collect();
        assert_eq!(
            offered(&mut machine),
            old,
            "pages faulted in since are too young"
        );
        machine.check_invariants();
    }
}

/// A page that is touched while it is isolated is put back as a young page.
#[test]
fn a_page_touched_while_isolated_is_put_back_young() {
    let mut machine = engine(10, MemcgLimits::default());
    fault(&mut machine, 0..10);
    machine.age(ONE, Millis(1));
    let mut batch = Vec::new();
    machine.isolate(ONE, 5, ScanReason::Direct, &mut batch);
    assert_eq!(batch.len(), 5);
    machine.lruvec_mut(ONE).young(FolioId(3));
    machine.unmap_range(ONE, FolioId(4), 1);
    fault(&mut machine, 4..5);
    for id in batch {
        machine.finish_page(ONE, id, (PageOut::Busy, ScanReason::Direct));
        machine.check_invariants();
    }
    assert_eq!(machine.lruvec(ONE).resident(), Pages(10));
    let referenced = |id| {
        let word = machine.lruvec(ONE).folios().get(FolioId(id));
        word.has(engine::word::Flag::Referenced)
    };
    assert!(referenced(3) && !referenced(2));
}

/// The sum of the histogram's bins is the number of all resident pages, including isolated ones.
#[test]
fn the_histogram_sums_to_the_resident_pages() {
    let mut machine = engine(500, MemcgLimits::default());
    let bins = Bins::new(&[Millis(10), Millis(100)]).expect("increasing");
    fault(&mut machine, 0..500);
    for now in [50, 120, 300] {
        machine.age(ONE, Millis(now));
        let mut batch = Vec::new();
        machine.isolate(ONE, 30, ScanReason::Direct, &mut batch);
        for mode in [Aggregation::Exact, Aggregation::Compat] {
            let report = machine.page_age(ONE, Millis(now), &bins, mode);
            assert_eq!(
                report.total(FolioType::Anon),
                machine.lruvec(ONE).resident()
            );
        }
        for id in batch {
            machine.finish_page(ONE, id, (PageOut::Stored, ScanReason::Direct));
        }
    }
    assert_eq!(machine.lruvec(ONE).out(FolioType::Anon), Pages(90));
}

/// workingset.md 12, test 13: a refault by readahead is counted, but activates nothing.
#[test]
fn readahead_of_an_evicted_page_activates_nothing() {
    let mut machine = engine(64, MemcgLimits::default());
    fault(&mut machine, 0..64);
    let mut memory = Simple::default();
    machine
        .proactive_reclaim(ONE, proactive(Pages(64), Millis(1)), &mut memory)
        .expect("cold");
    let refault = machine.fault_in(ONE, FolioId(0), FolioType::Anon, FaultKind::Readahead, true);
    assert!(refault.expect("a shadow").recent);
    assert_eq!(
        machine
            .lruvec(ONE)
            .lru_gen()
            .controller()
            .refaulted(FolioType::Anon, 0),
        1
    );
    let stats = machine.lruvec(ONE).stat();
    assert_eq!(stats.get(VmEvent::WorkingsetRefaultAnon), 1);
    assert_eq!(stats.get(VmEvent::WorkingsetActivateAnon), 0);
    machine.fault_in(ONE, FolioId(1), FolioType::Anon, FaultKind::Refault, true);
    assert_eq!(
        machine
            .lruvec(ONE)
            .stat()
            .get(VmEvent::WorkingsetActivateAnon),
        1
    );
}

/// workingset.md 12, test 15, and I2: a refault removes the shadow entry, and so does a truncation.
#[test]
fn truncation_leaves_no_shadow() {
    let mut machine = engine(64, MemcgLimits::default());
    fault(&mut machine, 0..64);
    let mut memory = Simple::default();
    machine
        .proactive_reclaim(ONE, proactive(Pages(32), Millis(1)), &mut memory)
        .expect("cold");
    machine.unmap_range(ONE, FolioId(0), 64);
    assert_eq!(machine.lruvec(ONE).out(FolioType::Anon), Pages(0));
    fault(&mut machine, 0..64);
    assert_eq!(
        machine
            .lruvec(ONE)
            .stat()
            .get(VmEvent::WorkingsetRefaultAnon),
        0
    );
    machine.check_invariants();
}

/// The classic policy, through the same functions: the coldest half of the pages is evicted, and
/// refaults.
#[test]
fn the_classic_policy_evicts_the_coldest_half() {
    let policy = Policy::ActiveInactive(Stage::Detection, Pages(1 << 20));
    let config = MachineConfig {
        policy,
        ..MachineConfig::default()
    };
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    machine.lruvec_mut(ONE).ensure(1000);
    fault(&mut machine, 0..1000);
    let mut evicted = Vec::new();
    for now in 1..40 {
        (0..200).for_each(|id| {
            if !machine.lruvec_mut(ONE).touch(FolioId(id)) {
                fault(&mut machine, id..id + 1);
            }
        });
        machine.age(ONE, Millis(now));
        let mut batch = Vec::new();
        machine.isolate(ONE, 32, ScanReason::Background, &mut batch);
        for id in batch {
            assert!(
                machine.finish_page(ONE, id, (PageOut::Stored, ScanReason::Background))
                    == PageEnd::Left
            );
            evicted.push(id.0);
        }
        machine.check_invariants();
        if machine.lruvec(ONE).resident() <= Pages(500) {
            break;
        }
    }
    assert!(machine.lruvec(ONE).resident() <= Pages(500));
    let hot_evicted = evicted.iter().filter(|&&id| id < 200).count();
    assert!(
        hot_evicted * 20 < evicted.len(),
        "{hot_evicted} of {}",
        evicted.len()
    );
    let bins = Bins::new(&[Millis(10)]).expect("increasing");
    let report = machine.page_age(ONE, Millis(50), &bins, Aggregation::Exact);
    assert_eq!(
        report.total(FolioType::Anon),
        machine.lruvec(ONE).resident()
    );
    let mut memory = Simple::default();
    let result = machine.proactive_reclaim(ONE, proactive(Pages(100), Millis(60)), &mut memory);
    assert!(result.is_ok_and(|result| result >= Pages(100)));
    machine.check_invariants();
}
