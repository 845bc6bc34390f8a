//! Tests of reclaim by age: which pages are evicted, how many, and when the reclaim ends.

use super::*;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Policy};
use crate::machine::shrink::tests::{Scripted, cold};
use crate::memcg::MemcgLimits;
use crate::units::{Limit, Swappiness};
use crate::vmscan::PageOut;
use crate::vmstat::VmEvent;
use alloc::vec::Vec;

const ONE: MemcgId = MemcgId::FIRST;
const ALL: Pages = Pages(u64::MAX);

#[test]
fn idle_pages_are_evicted_and_touched_pages_stay() {
    for batch in [64, 2048] {
        let mut machine = cold(batch, Policy::default(), [3000, 0]);
        let mut evicted = Vec::new();
        let mut memory = Scripted::new(|id| {
            evicted.push(id.0);
            PageOut::Stored
        });
        for now in [10_000, 20_000, 30_000] {
            // When a page of the oldest generation is reported young for the first time, it only
            // gets a flag, which aging clears. So each page is reported twice.
            let lruvec = machine.lruvec_mut(ONE);
            (0..2000).for_each(|id| lruvec.young(FolioId(id / 2)));
            machine.walk_and_age(ONE, Millis(now), &mut memory);
        }
        let first = machine.reclaim_by_age(ONE, Pages(300), Millis(30_000), &mut memory);
        assert_eq!(first.reclaimed, Pages(300), "no more than requested");
        let second = machine.reclaim_by_age(ONE, ALL, Millis(30_000), &mut memory);
        assert_eq!(second.reclaimed, Pages(1700));
        let largest = memory.batches.iter().max().copied();
        assert_eq!(largest, Some(batch.min(1700)));
        assert!(evicted.iter().all(|&id| id >= 1000));
        let stat = machine.lruvec(ONE).stat();
        assert_eq!(stat.get(VmEvent::PgstealProactive), 2000);
        machine.check_invariants();
    }
}

/// If no page of a batch can be evicted, for an unknown reason, reclaim stops after this batch. It
/// does not try all of memory.
#[test]
fn a_batch_without_an_eviction_is_the_last() {
    let mut machine = cold(256, Policy::default(), [3000, 0]);
    let mut memory = Scripted::new(|_| PageOut::Busy);
    let shrunk = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert_eq!((shrunk.reclaimed, shrunk.kept.busy), (Pages(0), 256));
    assert_eq!(memory.batches, [256]);
    machine.check_invariants();
}

/// Regression: a batch of pages that had all been accessed ended reclaim by age, as a batch of busy
/// pages does.
#[test]
fn a_batch_in_use_is_not_the_last() {
    let mut machine = cold(64, Policy::default(), [3000, 0]);
    let first = machine.lruvec(ONE).lru_gen().min_seq(FolioType::Anon);
    let order = machine.lruvec(ONE).list_order(first, FolioType::Anon);
    for &id in &order[..64] {
        assert!(machine.lruvec_mut(ONE).touch(id));
    }
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let shrunk = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert_eq!(
        (shrunk.reclaimed, shrunk.kept.referenced),
        (Pages(2936), 64)
    );
    machine.check_invariants();
}

/// Regression: when swap.max had fewer free slots than a batch, file pages behind anon pages
/// without a slot were not evicted.
#[test]
fn when_swap_max_is_reached_file_pages_go_by_age() {
    let mut machine = cold(512, Policy::default(), [3000, 1000]);
    let limits = MemcgLimits {
        swap_max: Limit::of(Pages(100)),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    // Anon pages go first.
    machine.set_swappiness(ONE, Swappiness::new(200).expect("in range"));
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let shrunk = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert_eq!((shrunk.reclaimed, shrunk.no_swap), (Pages(1100), false));
    assert_eq!(machine.lruvec(ONE).out(FolioType::Anon), Pages(100));
    machine.check_invariants();
}

/// Regression: a second process of the same program (node) mapped 50 MiB of its code, too. Each
/// reclaim ended at the batch with these shared pages, and no page of the heap behind them was
/// evicted.
#[test]
fn shared_pages_do_not_end_the_reclaim() {
    let mut machine = cold(256, Policy::default(), [3000, 0]);
    let mut memory = Scripted::new(|id| match id.0 {
        0..1000 => PageOut::Shared,
        _ => PageOut::Stored,
    });
    let shrunk = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert_eq!((shrunk.reclaimed, shrunk.kept.shared), (Pages(2000), 1000));
    machine.check_invariants();
}

/// Reclaim must end even if only one page in a hundred can be evicted.
#[test]
fn no_page_is_offered_twice() {
    let mut machine = cold(256, Policy::default(), [3000, 0]);
    let mut memory = Scripted::new(|id| {
        if id.0 % 100 == 0 {
            PageOut::Stored
        } else {
            PageOut::Locked
        }
    });
    machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert!(memory.batches.iter().sum::<usize>() <= 3000);
    machine.check_invariants();
}

#[test]
fn without_swap_only_file_pages_go_by_age() {
    let mut machine = cold(64, Policy::default(), [1000, 1000]);
    let mut anon = 0;
    let mut memory = Scripted::new(|id| {
        anon += u32::from(id.0 < 1000);
        if id.0 < 1000 {
            PageOut::NoSwap
        } else {
            PageOut::Stored
        }
    });
    let shrunk = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert_eq!((shrunk.reclaimed, shrunk.no_swap), (Pages(1000), true));
    assert!(anon <= 64, "{anon} anon pages were tried");
    assert_eq!(machine.lruvec(ONE).resident(), Pages(1000));
    machine.check_invariants();
}

#[test]
fn a_child_below_its_min_keeps_its_pages() {
    let mut machine = cold(64, Policy::default(), [100, 0]);
    let limits = MemcgLimits {
        min: Pages(100),
        ..MemcgLimits::default()
    };
    machine.set_limits(ONE, limits);
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let root = MemcgId::ROOT;
    let shrunk = machine.reclaim_by_age(root, ALL, Millis(9), &mut memory);
    assert_eq!((shrunk.reclaimed, memory.batches.len()), (Pages(0), 0));
    // The memory.min of the reclaim's own target does not protect it.
    let shrunk = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
    assert_eq!(shrunk.reclaimed, Pages(100));
    assert_eq!(machine.lruvec(ONE).out(FolioType::Anon), Pages(100));
    machine.check_invariants();
}

/// Two generations of a thousand pages, both old, and a hundred young ones; `batch` pages are
/// isolated at a time.
fn generations(batch: usize) -> Machine {
    let mut machine = cold(batch, Policy::default(), [0, 0]);
    machine.lruvec_mut(ONE).ensure(2100);
    for first in [0, 1000] {
        for id in (first..first + 1000).map(FolioId) {
            machine.fault_in(ONE, id, FolioType::Anon, FaultKind::FirstTouch, true);
        }
        machine.age(ONE, Millis(u64::from(first) + 10));
    }
    for id in (2000..2100).map(FolioId) {
        machine.fault_in(ONE, id, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    machine
}

/// Regression: a policy in a dry run, which evicts nothing, moved all cold pages in front of the
/// youngest generation at each scan. A limit then evicted pages that had been used a minute ago.
/// After a first fix this still happened if all cold pages fitted into one batch.
#[test]
fn a_page_that_is_too_young_stays_where_it_was() {
    let evicted_pages = |machine: &mut Machine| {
        let mut evicted = Vec::new();
        let mut memory = Scripted::new(|id| {
            evicted.push(id.0);
            PageOut::Stored
        });
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            nr: Pages(1500),
            swappiness: None,
            now: Millis(9000),
        };
        let result = machine.proactive_reclaim(ONE, request, &mut memory);
        assert!(
            result.is_ok_and(|result| result >= Pages(1500)),
            "{result:?}"
        );
        evicted
    };
    for batch in [64, 4096] {
        let (mut machine, mut other) = (generations(batch), generations(batch));
        let mut offered = 0;
        let mut memory = Scripted::new(|_| {
            offered += 1;
            PageOut::TooYoung
        });
        for _ in 0..5 {
            let result = machine.reclaim_by_age(ONE, ALL, Millis(9), &mut memory);
            assert_eq!(result.reclaimed, Pages(0));
            machine.check_invariants();
        }
        assert_eq!(offered, 5 * 2000, "each page once");
        assert_eq!(
            evicted_pages(&mut machine),
            evicted_pages(&mut other),
            "by {batch}"
        );
    }
}

/// A reclaim in slices also tries each page once, in order, if every second page is evicted.
#[test]
fn a_reclaim_by_age_continues_after_a_pause() {
    let mut machine = generations(64);
    let mut offered = Vec::new();
    let mut memory = Scripted::new(|id| {
        offered.push(id.0);
        match id.0 % 2 {
            0 => PageOut::TooYoung,
            _ => PageOut::Stored,
        }
    });
    memory.pauses = true;
    let mut by_age = ByAge::own(ONE, ALL);
    let mut slices = 1;
    while !machine.go_on_by_age(&mut by_age, Millis(9), &mut memory) {
        machine.check_invariants();
        slices += 1;
    }
    assert!(slices > 10, "{slices}");
    let mut distinct = offered.clone();
    distinct.dedup();
    assert!(offered.is_sorted(), "the oldest first");
    assert_eq!(distinct.len(), offered.len(), "each page once");
    assert_eq!(by_age.total.reclaimed, Pages(offered.len() as u64 / 2));
}
