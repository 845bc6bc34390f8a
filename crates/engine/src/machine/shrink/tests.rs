//! Tests of batches, of the reasons why pages stay, and of lack of swap. Each test scripts its
//! memory.

use super::*;
use crate::folio::FolioId;
use crate::lruvec::{FaultKind, Policy};
use crate::machine::MachineConfig;
use crate::memcg::MemcgLimits;
use crate::units::Limit;
use crate::vmscan::{Kept, PageEnd, PageOut, ScanReduction, TryAgain};
use crate::vmstat::VmEvent;
use alloc::vec::Vec;

const ONE: MemcgId = MemcgId::FIRST;

/// A memory that pages out as its function `outcome` decides for each page, and records the sizes
/// of the batches.
pub(in crate::machine) struct Scripted<F> {
    pub(in crate::machine) outcome: F,
    pub(in crate::machine) batches: Vec<usize>,
    pub(in crate::machine) walks: u32,
    /// The result of each [`Memory::wants_pause`].
    pub(in crate::machine) pauses: bool,
}

impl<F: FnMut(FolioId) -> PageOut> Scripted<F> {
    pub(in crate::machine) fn new(outcome: F) -> Self {
        Self {
            outcome,
            batches: Vec::new(),
            walks: 0,
            pauses: false,
        }
    }
}

impl<F: FnMut(FolioId) -> PageOut> Memory for Scripted<F> {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        self.walks += 1;
        lruvec.walk_accessed();
    }

    fn wants_pause(&mut self) -> bool {
        self.pauses
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        self.batches.push(batch.len());
        outcome.extend(batch.iter().map(|&id| (self.outcome)(id)));
    }
}

/// Creates one tenant with `pages[0]` cold anon pages, and after them `pages[1]` cold file pages.
pub(in crate::machine) fn cold(batch: usize, policy: Policy, pages: [u32; 2]) -> Machine {
    let config = MachineConfig {
        batch,
        policy,
        ..MachineConfig::default()
    };
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    let total = pages[0] + pages[1];
    machine.lruvec_mut(ONE).ensure(total as usize);
    for id in (0..total).map(FolioId) {
        let ty = FolioType::ALL[usize::from(id.0 >= pages[0])];
        machine.fault_in(ONE, id, ty, FaultKind::Readahead, true);
    }
    (1..4).for_each(|now| machine.age(ONE, Millis(now)));
    machine
}

fn request(nr: u64, now: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Proactive, Pages(nr), Millis(now))
}

const CLASSIC: Policy =
    Policy::ActiveInactive(crate::active_inactive::Stage::Detection, Pages(1 << 20));

/// On a host one system call pages out thousands of pages, but no more than were requested.
#[test]
fn large_batches_are_used_and_never_overshoot() {
    for policy in [Policy::default(), CLASSIC] {
        for nr in [1, 63, 65, 700, 5000] {
            let mut machine = cold(2048, policy, [8000, 0]);
            let mut memory = Scripted::new(|_| PageOut::Stored);
            let result = machine.proactive_reclaim(ONE, request(nr, 10), &mut memory);
            assert_eq!(result, Ok(Pages(nr)), "{policy:?}");
            let largest = memory.batches.iter().max().copied();
            assert!(largest <= Some(2048), "{policy:?}: {largest:?}");
            let calls = memory.batches.len() as u64;
            assert!(
                calls <= nr / 2048 + 16,
                "{policy:?}: {calls} calls for {nr}"
            );
            machine.check_invariants();
        }
    }
}

#[test]
fn pages_that_stay_are_replaced_by_others_without_overshoot() {
    let mut machine = cold(2048, Policy::default(), [8000, 0]);
    let mut memory = Scripted::new(|id| {
        if id.0 % 3 == 0 {
            PageOut::Shared
        } else {
            PageOut::Stored
        }
    });
    let result = machine.proactive_reclaim(ONE, request(3000, 10), &mut memory);
    assert_eq!(result, Ok(Pages(3000)));
    machine.check_invariants();
}

/// In reclaim of several tenants, the request is for all of them together.
#[test]
fn large_batches_do_not_overshoot_in_a_tree() {
    let mut machine = cold(2048, Policy::default(), [4000, 0]);
    let other = machine.create(MemcgId::ROOT, Millis(0));
    machine.lruvec_mut(other).ensure(4000);
    for id in (0..4000).map(FolioId) {
        machine.fault_in(other, id, FolioType::Anon, FaultKind::Readahead, true);
    }
    (4..7).for_each(|now| machine.age(other, Millis(now)));
    for reason in [ScanReason::Direct, ScanReason::Proactive] {
        let request = ReclaimRequest {
            reason,
            ..request(500, 10)
        };
        let mut memory = Scripted::new(|_| PageOut::Stored);
        let shrunk = machine.reclaim_subtree(MemcgId::ROOT, request, &mut memory);
        assert_eq!(shrunk.reclaimed, Pages(500), "{reason:?}");
        let shrunk = machine.reclaim_root(request, &mut memory);
        assert_eq!(shrunk.reclaimed, Pages(500), "{reason:?}, by the memcg LRU");
    }
    machine.check_invariants();
}

/// Regression: pages that kernel reclaim had taken meanwhile counted as stolen by the engine, and
/// towards the request. So a memory.reclaim ended after half of its request.
#[test]
fn pages_taken_by_kernel_reclaim_do_not_count_as_stolen() {
    for policy in [Policy::default(), CLASSIC] {
        let mut machine = cold(64, policy, [1000, 0]);
        let (mut requested, taken) = (0, 200);
        let mut memory = Scripted::new(|_| {
            requested += 1;
            match requested <= taken {
                true => PageOut::Taken,
                false => PageOut::Stored,
            }
        });
        let result = machine.proactive_reclaim(ONE, request(400, 10), &mut memory);
        let stored = requested - taken;
        assert_eq!(result, Ok(Pages(stored)), "{policy:?}");
        assert!(stored >= 400, "{policy:?}: {stored}");
        let stat = machine.lruvec(ONE).stat();
        assert_eq!(stat.pgsteal(), stored, "{policy:?}");
        assert_eq!(stat.get(VmEvent::PgstealKernel), taken, "{policy:?}");
        assert_eq!(
            machine.lruvec(ONE).out(FolioType::Anon),
            Pages(stored + taken)
        );
        assert_eq!(
            machine.tree().get(ONE).usage(),
            machine.lruvec(ONE).resident()
        );
        machine.check_invariants();
    }
}

/// As the test above, but with the three phases as separate calls.
#[test]
fn an_isolated_page_that_the_kernel_took_is_charged_to_swap() {
    let mut machine = cold(64, Policy::default(), [10, 0]);
    let mut isolated = Vec::new();
    machine.isolate(ONE, 1, ScanReason::Direct, &mut isolated);
    let end = machine.finish_page(ONE, isolated[0], (PageOut::Taken, ScanReason::Direct));
    assert_eq!(end, PageEnd::Taken);
    assert_eq!(machine.lruvec(ONE).stat().get(VmEvent::PgstealKernel), 1);
    machine.check_invariants();
}

#[test]
fn each_reason_is_counted() {
    let mut machine = cold(64, Policy::default(), [640, 0]);
    let mut memory = Scripted::new(|id| match id.0 % 5 {
        0 => PageOut::Shared,
        1 => PageOut::Locked,
        2 => PageOut::Referenced,
        3 => PageOut::Busy,
        _ => PageOut::Stored,
    });
    let shrunk = machine.evict_coldest(ONE, 64, Millis(10), &mut memory);
    let counts = [
        shrunk.kept.shared,
        shrunk.kept.locked,
        shrunk.kept.referenced,
        shrunk.kept.busy,
    ];
    assert!(counts.iter().all(|nr| (12..=13).contains(nr)), "{counts:?}");
    assert_eq!(shrunk.kept.total() + shrunk.reclaimed.0, 64);
    assert!(!shrunk.no_swap);
    // Pages touched since the last walk are not passed to page-out.
    let next = machine.lruvec(ONE).list_order(
        machine.lruvec(ONE).lru_gen().min_seq(FolioType::Anon),
        FolioType::Anon,
    )[0];
    assert!(machine.lruvec_mut(ONE).touch(next));
    let shrunk = machine.evict_coldest(ONE, 1, Millis(10), &mut memory);
    assert_eq!((shrunk.kept.referenced, memory.batches.len()), (1, 1));
    machine.check_invariants();
}

/// When swap is full, the kernel activates the pages that it was requested to page out. The first
/// page with that outcome ends reclaim of anon pages.
#[test]
fn the_first_sign_of_full_swap_ends_anon_reclaim() {
    for policy in [Policy::default(), CLASSIC] {
        let mut machine = cold(64, policy, [2000, 0]);
        let mut memory = Scripted::new(|_| PageOut::NoSwap);
        let result = machine.proactive_reclaim(ONE, request(500, 10), &mut memory);
        let none = TryAgain {
            reclaimed: Pages(0),
        };
        assert_eq!((result, memory.batches.len()), (Err(none), 1), "{policy:?}");
        assert_eq!(
            memory.walks, 0,
            "no walk for pages that cannot be swapped out"
        );
        let event = |event| machine.memory_events_local(ONE).get(event);
        assert_eq!(event(MemcgEvent::SwapFail), 1);
        assert_eq!(event(MemcgEvent::SwapMax), 0, "no limit is the cause");
        machine.check_invariants();
        // At a later time swap is tried again.
        let mut memory = Scripted::new(|_| PageOut::Stored);
        let result = machine.proactive_reclaim(ONE, request(500, 11), &mut memory);
        assert!(
            result.is_ok_and(|result| result >= Pages(500)),
            "{policy:?}"
        );
    }
}

#[test]
fn file_pages_are_evicted_when_swap_is_full() {
    let mut machine = cold(64, Policy::default(), [1000, 1000]);
    let mut anon = 0;
    let mut memory = Scripted::new(|id| {
        anon += usize::from(id.0 < 1000);
        if id.0 < 1000 {
            PageOut::NoSwap
        } else {
            PageOut::Stored
        }
    });
    let direct = ReclaimRequest {
        reason: ScanReason::Direct,
        swappiness: Swappiness::new(200),
        ..request(300, 10)
    };
    let shrunk = machine.reclaim_subtree(ONE, direct, &mut memory);
    assert!(
        shrunk.no_swap && shrunk.reclaimed >= Pages(300),
        "{shrunk:?}"
    );
    assert!(anon <= 64, "{anon} anon pages were tried");
    assert!(shrunk.unswapped > 0 && shrunk.kept == Kept::default());
    machine.check_invariants();
}

/// Regression: classic-lru.md 5.1. With 63 slots free below swap.max nothing was swapped out. Only
/// the multi-gen LRU requires that a whole batch fits (lru-gen.md 5.5).
#[test]
fn classic_lists_use_the_last_slots() {
    for (policy, out) in [(CLASSIC, 32), (Policy::default(), 0)] {
        let mut machine = cold(64, policy, [2000, 0]);
        let limits = MemcgLimits {
            swap_max: Limit::of(Pages(32)),
            ..MemcgLimits::default()
        };
        machine.set_limits(ONE, limits);
        let mut memory = Scripted::new(|_| PageOut::Stored);
        let _ = machine.proactive_reclaim(ONE, request(500, 10), &mut memory);
        let lruvec = machine.lruvec(ONE);
        assert_eq!(lruvec.out(FolioType::Anon), Pages(out), "{policy:?}");
        machine.check_invariants();
    }
}

/// Regression: pages reclaimed at earlier priorities were subtracted from the request of the next
/// pass, so the pass over the classic lists stopped one turn too early. In the kernel each pass may
/// take the whole request.
#[test]
fn each_priority_has_the_whole_request() {
    let mut machine = cold(64, CLASSIC, [0, 20 << 12]);
    let mut requested = 0;
    let mut memory = Scripted::new(|_| {
        requested += 1;
        // Of the first 32 pages of the second priority, 12 stay.
        let stays = (20..32).contains(&(requested - 1));
        if stays {
            PageOut::Busy
        } else {
            PageOut::Stored
        }
    });
    let request = ReclaimRequest {
        reason: ScanReason::Direct,
        swappiness: Some(Swappiness::FILE_ONLY),
        ..request(32, 10)
    };
    let shrunk = machine.reclaim_subtree(ONE, request, &mut memory);
    // The second pass may scan 39 pages. After its first turn it has reclaimed 20 of the requested
    // 32.
    assert_eq!(memory.batches, [20, 32, 7]);
    assert_eq!(shrunk.reclaimed, Pages(20 + 20 + 7));
    machine.check_invariants();
}

/// classic-lru.md 5.4. Other tests check both reductions on a lruvec; this test checks that a pass
/// uses the machine's setting.
#[test]
fn a_pass_uses_the_machines_scan_reduction() {
    for (reduction, expected) in [(ScanReduction::EachTurn, 96), (ScanReduction::Once, 8132)] {
        let mut machine = cold(64, CLASSIC, [10_000, 40]);
        machine.config.scan_reduction = reduction;
        let direct = ReclaimRequest {
            reason: ScanReason::Direct,
            ..request(32, 10)
        };
        let mut reclaimer = machine.reclaimer(ONE, direct, 0);
        let mut memory = Scripted::new(|_| PageOut::Stored);
        while machine.step(&mut reclaimer, &mut memory).is_some() {}
        assert_eq!(
            machine.finish(reclaimer).reclaimed,
            Pages(expected),
            "{reduction:?}"
        );
    }
}
