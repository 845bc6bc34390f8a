//! Reclaim of one tenant through a memory that keeps accessed bits in the engine's words.
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::lru_gen::Verdict;
use engine::memcg::{MemcgEvent, MemcgLimits};
use engine::vmscan::{Oom, TryAgain};
use engine::vmstat::VmEvent;
use engine::workingset::{Aggregation, Bins};
use engine::{
    Bytes, Engine, EngineConfig, FaultKind, FolioId, FolioType, Limit, Lruvec, Memory, Millis,
    PageOut, Pages, Policy, ScanReason,
};

/// Memory that pages out whatever it is given, except that the pages of `busy` cannot go.
#[derive(Default)]
struct Simple {
    busy: std::ops::Range<u32>,
    order: Vec<u32>,
}

impl Memory for Simple {
    fn walk(&mut self, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        for id in batch {
            let busy = self.busy.contains(&id.0);
            outcome.push(if busy { PageOut::Busy } else { PageOut::Stored });
            self.order.push(id.0);
        }
    }
}

fn engine(pages: u32, limits: MemcgLimits) -> Engine {
    let mut engine = Engine::new(
        EngineConfig {
            limits,
            ..EngineConfig::default()
        },
        Millis(0),
    );
    engine.ensure(pages as usize);
    engine
}

fn fault(engine: &mut Engine, ids: std::ops::Range<u32>) {
    for id in ids.map(FolioId) {
        engine.fault_in(id, FolioType::Anon, FaultKind::Refault, true);
    }
}

fn pages(n: u64) -> Limit {
    Limit::Bytes(Bytes(n * 4096))
}

/// reclaim-control.md 11, test 7.
#[test]
fn a_charge_over_max_with_nothing_to_reclaim() {
    let mut engine = engine(
        101,
        MemcgLimits {
            max: pages(100),
            ..MemcgLimits::default()
        },
    );
    fault(&mut engine, 0..100);
    let mut memory = Simple {
        busy: 0..101,
        ..Simple::default()
    };
    assert_eq!(engine.make_room(Pages(1), Millis(1), &mut memory), Err(Oom));
    let events = engine.memcg().events();
    assert_eq!(
        (events.get(MemcgEvent::Max), events.get(MemcgEvent::Oom)),
        (1, 1)
    );
    assert!(!memory.order.is_empty(), "it tried");
    engine.check_invariants();
}

#[test]
fn a_charge_over_max_makes_room() {
    let mut engine = engine(
        200,
        MemcgLimits {
            max: pages(100),
            ..MemcgLimits::default()
        },
    );
    let mut memory = Simple::default();
    for id in 0..200 {
        engine
            .make_room(Pages(1), Millis(u64::from(id)), &mut memory)
            .expect("room");
        fault(&mut engine, id..id + 1);
        assert!(engine.memcg().usage() <= Pages(100));
        engine.check_invariants();
    }
    assert_eq!(engine.memcg().events().get(MemcgEvent::Oom), 0);
    assert_eq!(
        memory.order[..32],
        (0..32).collect::<Vec<_>>(),
        "the coldest first"
    );
}

/// reclaim-control.md 11, test 8, and I8.
#[test]
fn proactive_reclaim() {
    let mut engine = engine(100, MemcgLimits::default());
    let mut memory = Simple::default();
    let empty = engine.proactive_reclaim(Pages(32), None, Millis(1), &mut memory);
    assert_eq!(
        empty,
        Err(TryAgain {
            reclaimed: Pages(0)
        })
    );
    fault(&mut engine, 0..100);
    let got = engine
        .proactive_reclaim(Pages(32), None, Millis(2), &mut memory)
        .expect("cold");
    assert!(got >= Pages(32));
    assert_eq!(engine.stats().get(VmEvent::PgstealProactive), got.0);
    assert_eq!(engine.stats().pgsteal(), got.0);
    for event in MemcgEvent::ALL {
        assert_eq!(engine.memcg().events().get(event), 0, "{}", event.name());
    }
    engine.check_invariants();
}

/// With swap.max 0 anon stays: reclaim-control.md 11, test 13, as far as one tenant goes.
#[test]
fn without_swap_only_file_pages_go() {
    let mut engine = engine(
        200,
        MemcgLimits {
            swap_max: pages(0),
            ..MemcgLimits::default()
        },
    );
    fault(&mut engine, 0..100);
    for id in (100..200).map(FolioId) {
        engine.fault_in(id, FolioType::File, FaultKind::Readahead, true);
    }
    let mut memory = Simple::default();
    let got = engine.proactive_reclaim(Pages(100), None, Millis(1), &mut memory);
    assert_eq!(got, Ok(Pages(100)));
    assert!(memory.order.iter().all(|&id| id >= 100));
    let events = engine.memcg().events();
    assert!(events.get(MemcgEvent::SwapFail) > 0 && events.get(MemcgEvent::SwapMax) > 0);
    assert_eq!(engine.memcg().swap_usage(), Pages(0));
    assert_eq!(
        engine.explain(FolioId(0), Millis(1)).verdict,
        Verdict::TypeExcluded
    );
    engine.check_invariants();
}

/// What is touched between walks stays; what is not goes.
#[test]
fn the_hot_stay_and_the_cold_go() {
    let mut engine = engine(1000, MemcgLimits::default());
    fault(&mut engine, 0..1000);
    let mut memory = Simple::default();
    for now in 1..5 {
        (0..200).for_each(|id| assert!(engine.lruvec_mut().touch(FolioId(id))));
        engine.walk_and_age(&mut memory, Millis(now * 1000));
        engine.check_invariants();
    }
    let mut batch = Vec::new();
    engine.isolate(1000, ScanReason::Background, &mut batch);
    assert_eq!(batch.len(), 800);
    assert!(batch.iter().all(|id| id.0 >= 200));
    for id in batch {
        assert!(engine.evicted(id, ScanReason::Background));
        assert!(!engine.evicted(id, ScanReason::Background), "only once");
    }
    assert_eq!(engine.resident_pages(), Pages(200));
    engine.check_invariants();
}

#[test]
fn eviction_by_age_takes_what_was_idle_long_enough_and_nothing_else() {
    let mut engine = engine(300, MemcgLimits::default());
    fault(&mut engine, 0..100);
    let mut memory = Simple::default();
    engine.walk_and_age(&mut memory, Millis(10_000));
    fault(&mut engine, 100..200);
    engine.walk_and_age(&mut memory, Millis(20_000));
    fault(&mut engine, 200..300);
    let at = |engine: &mut Engine, now| {
        let mut batch = Vec::new();
        engine.isolate_older_than(Millis(10_000), 1000, Millis(now), &mut batch);
        batch.iter().map(|id| id.0).collect::<Vec<_>>()
    };
    assert_eq!(
        at(&mut engine, 19_999),
        [0u32; 0],
        "nothing is that old yet"
    );
    assert_eq!(at(&mut engine, 20_000), (0..100).collect::<Vec<_>>());
    engine.walk_and_age(&mut memory, Millis(30_000));
    assert_eq!(at(&mut engine, 30_000), (100..200).collect::<Vec<_>>());
    let explained = engine.explain(FolioId(250), Millis(30_000));
    assert!(explained.verdict == Verdict::Candidate && explained.idle_at_least < Millis(10_000));
    engine.check_invariants();
}

/// The pager's `--evict-older-than 10s --every 40s`: a walk at 30 s of each period, eviction at 40 s.
/// Pages that were in use in one period, and idle from that period's walk on, used to be handed out
/// at the end of the next period only; pages that came in after the walk must not go before.
#[test]
fn eviction_by_age_is_not_a_cycle_late() {
    let mut engine = engine(300, MemcgLimits::default());
    let mut memory = Simple::default();
    let evict = |engine: &mut Engine, now| {
        let mut batch = Vec::new();
        engine.isolate_older_than(Millis(10_000), 1000, Millis(now), &mut batch);
        for &id in &batch {
            engine.settle(id, PageOut::Stored, ScanReason::Proactive);
        }
        engine.check_invariants();
        batch.iter().map(|id| id.0).collect::<Vec<_>>()
    };
    fault(&mut engine, 0..200);
    for period in 0..3 {
        let start = period * 40_000;
        // All are used before the walk, and the first hundred afterwards as well.
        (0..200).for_each(|id| assert!(engine.lruvec_mut().touch(FolioId(id))));
        engine.walk_and_age(&mut memory, Millis(start + 30_000));
        (0..100).for_each(|id| assert!(engine.lruvec_mut().touch(FolioId(id))));
        if period == 2 {
            fault(&mut engine, 200..300);
        }
        engine.walk_and_age(&mut memory, Millis(start + 40_000));
        if period < 2 {
            // What is taken here is wanted at once: only the last period is looked at.
            continue;
        }
        let gone = evict(&mut engine, start + 40_000);
        assert_eq!(gone, (100..200).collect::<Vec<_>>(), "period {period}");
    }
    assert_eq!(
        evict(&mut engine, 120_000),
        [0u32; 0],
        "new pages and those in use stay"
    );
}

/// A page that is touched while it is on its way out comes back young.
#[test]
fn touched_while_isolated() {
    let mut engine = engine(10, MemcgLimits::default());
    fault(&mut engine, 0..10);
    engine.age(Millis(1));
    let mut batch = Vec::new();
    engine.isolate(5, ScanReason::Direct, &mut batch);
    assert_eq!(batch.len(), 5);
    engine.young(FolioId(3));
    engine.unmap(FolioId(4));
    fault(&mut engine, 4..5);
    for id in batch {
        engine.settle(id, PageOut::Busy, ScanReason::Direct);
        engine.check_invariants();
    }
    assert_eq!(engine.resident_pages(), Pages(10));
    let referenced = |id| {
        let word = engine.lruvec().folios().get(FolioId(id));
        word.has(engine::word::Flag::Referenced)
    };
    assert!(referenced(3) && !referenced(2));
}

/// Architecture rule 3: the histogram sums to the resident pages, isolated ones included.
#[test]
fn the_histogram_sums_to_what_is_resident() {
    let mut engine = engine(500, MemcgLimits::default());
    let bins = Bins::new(&[Millis(10), Millis(100)]).expect("increasing");
    fault(&mut engine, 0..500);
    for now in [50, 120, 300] {
        engine.age(Millis(now));
        let mut batch = Vec::new();
        engine.isolate(30, ScanReason::Direct, &mut batch);
        for mode in [Aggregation::Exact, Aggregation::Compat] {
            let report = engine.page_age(Millis(now), &bins, mode);
            assert_eq!(report.total(FolioType::Anon), engine.resident_pages());
        }
        for id in batch {
            engine.settle(id, PageOut::Stored, ScanReason::Direct);
        }
    }
    assert_eq!(engine.out_pages(FolioType::Anon), Pages(90));
    assert_eq!(engine.oldest_age(Millis(300)), Some(Millis(300)));
}

/// workingset.md 12, test 13: a refault outside a fault counts, but activates nothing.
#[test]
fn readahead_of_an_evicted_page() {
    let mut engine = engine(64, MemcgLimits::default());
    fault(&mut engine, 0..64);
    let mut memory = Simple::default();
    engine
        .proactive_reclaim(Pages(64), None, Millis(1), &mut memory)
        .expect("cold");
    let refault = engine.fault_in(FolioId(0), FolioType::Anon, FaultKind::Readahead, true);
    assert!(refault.expect("a shadow").recent);
    assert_eq!(
        engine.lru_gen().controller().refaulted(FolioType::Anon, 0),
        1
    );
    let stats = engine.stats();
    assert_eq!(stats.get(VmEvent::WorkingsetRefaultAnon), 1);
    assert_eq!(stats.get(VmEvent::WorkingsetActivateAnon), 0);
    engine.fault_in(FolioId(1), FolioType::Anon, FaultKind::Refault, true);
    assert_eq!(engine.stats().get(VmEvent::WorkingsetActivateAnon), 1);
}

/// workingset.md 12, test 15, and I2: a shadow is consumed once, also by truncation.
#[test]
fn truncation_leaves_no_shadow() {
    let mut engine = engine(64, MemcgLimits::default());
    fault(&mut engine, 0..64);
    let mut memory = Simple::default();
    engine
        .proactive_reclaim(Pages(32), None, Millis(1), &mut memory)
        .expect("cold");
    engine.unmap_range(FolioId(0), 64);
    assert_eq!(engine.out_pages(FolioType::Anon), Pages(0));
    fault(&mut engine, 0..64);
    assert_eq!(engine.stats().get(VmEvent::WorkingsetRefaultAnon), 0);
    engine.check_invariants();
}

/// The classic policy behind the same facade: the coldest half goes, and comes back.
#[test]
fn the_classic_policy_through_the_same_facade() {
    let policy = Policy::ActiveInactive(Stage::Detection, Pages(1 << 20));
    let config = EngineConfig {
        policy,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(config, Millis(0));
    engine.ensure(1000);
    fault(&mut engine, 0..1000);
    let mut gone = Vec::new();
    for now in 1..40 {
        (0..200).for_each(|id| {
            if !engine.lruvec_mut().touch(FolioId(id)) {
                fault(&mut engine, id..id + 1);
            }
        });
        engine.age(Millis(now));
        let mut batch = Vec::new();
        engine.isolate(32, ScanReason::Background, &mut batch);
        for id in batch {
            assert!(engine.evicted(id, ScanReason::Background));
            gone.push(id.0);
        }
        engine.check_invariants();
        if engine.resident_pages() <= Pages(500) {
            break;
        }
    }
    assert!(engine.resident_pages() <= Pages(500));
    let hot_gone = gone.iter().filter(|&&id| id < 200).count();
    assert!(hot_gone * 20 < gone.len(), "{hot_gone} of {}", gone.len());
    let bins = Bins::new(&[Millis(10)]).expect("increasing");
    let report = engine.page_age(Millis(50), &bins, Aggregation::Exact);
    assert_eq!(report.total(FolioType::Anon), engine.resident_pages());
    let mut memory = Simple::default();
    let got = engine.proactive_reclaim(Pages(100), None, Millis(60), &mut memory);
    assert!(got.is_ok_and(|got| got >= Pages(100)));
    engine.check_invariants();
}
