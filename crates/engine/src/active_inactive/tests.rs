//! The numbered tests of classic-lru.md 8 and workingset.md 12 that need whole lists.

mod naive;

use super::*;
use crate::lruvec::{FaultKind, Lruvec, Policy};
use crate::memcg::MemcgId;
use crate::units::{Millis, Swappiness};
use crate::vmscan::{Memory, PageOut, ScanControl, ScanReason, Shrunk, shrink_lruvec};
use crate::vmstat::VmEvent;

struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

fn lruvec(stage: Stage, pages: usize) -> Lruvec {
    let policy = Policy::ActiveInactive(stage, Pages(1 << 20));
    let mut lruvec = Lruvec::new(policy, Millis(0));
    lruvec.ensure(pages);
    lruvec
}

fn lists(lruvec: &Lruvec) -> Sizes {
    lruvec.classic().expect("classic").sizes()
}

fn word(lruvec: &Lruvec, id: u32) -> Word {
    lruvec.folios().get(FolioId(id))
}

fn reclaim(lruvec: &mut Lruvec, nr: u64, priority: u32) -> Shrunk {
    let sc = ScanControl {
        priority,
        ..ScanControl::new(
            ScanReason::Direct,
            Pages(nr),
            Swappiness::default(),
            Millis(0),
        )
    };
    shrink_lruvec(MemcgId::ROOT, lruvec, &sc, &mut Simple)
}

/// A memory with room for 100 anon pages. An access of an absent page faults it in, and then evicts
/// pages until 100 remain.
struct SmallMemory {
    lruvec: Lruvec,
    swap_in: u64,
    swap_out: Vec<u32>,
}

impl SmallMemory {
    fn new(stage: Stage) -> Self {
        Self {
            lruvec: lruvec(stage, 1000),
            swap_in: 0,
            swap_out: Vec::new(),
        }
    }

    fn access(&mut self, ids: core::ops::Range<u32>) {
        for id in ids.map(FolioId) {
            if self.lruvec.touch(id) {
                continue;
            }
            self.swap_in += u64::from(self.lruvec.folios().get(id).state() == State::Shadow);
            self.lruvec
                .fault_in(id, FolioType::Anon, FaultKind::Refault, true, true);
            while self.lruvec.resident() > Pages(100) {
                self.evict_one();
            }
            self.lruvec.check_invariants(Swappiness::default());
        }
    }

    /// Evicts one page as the model in classic-lru.md does: if the inactive list is low,
    /// deactivates a page instead; otherwise takes the page at the tail of the inactive list.
    fn evict_one(&mut self) {
        let low = self
            .lruvec
            .classic()
            .expect("classic")
            .is_low(FolioType::Anon);
        if low {
            self.lruvec.shrink_active(FolioType::Anon, 1);
            return;
        }
        let mut out = Vec::new();
        self.lruvec
            .isolate_inactive(ScanReason::Direct, FolioType::Anon, 1, &mut out);
        for id in out {
            self.swap_out.push(id.0);
            self.lruvec.evicted(id, ScanReason::Direct);
        }
    }

    /// Clears the accessed bits of `ids`.
    fn clear_accessed(&mut self, ids: core::ops::Range<u32>) {
        for id in ids.map(FolioId) {
            self.lruvec.folios_mut().take_accessed(id);
        }
    }
}

/// The first access through a descriptor sets PG_referenced, the second activates the page, the
/// third sets it again.
/// spec: classic-lru.md 8, test 1.
#[test]
fn four_accesses_of_a_file_page() {
    let mut lruvec = lruvec(Stage::Detection, 1);
    lruvec.fault_in(
        FolioId(0),
        FolioType::File,
        FaultKind::Descriptor,
        true,
        true,
    );
    let mut states = Vec::new();
    for _ in 0..4 {
        lruvec.mark_accessed(FolioId(0));
        let word = word(&lruvec, 0);
        states.push((word.has(Flag::Active), word.has(Flag::Referenced)));
        lruvec.check_invariants(Swappiness::default());
    }
    assert_eq!(
        states,
        [(false, true), (true, false), (true, true), (true, true)]
    );
    assert_eq!(lruvec.classic().expect("classic").nonresident_age(), 1);
}

/// classic-lru.md 8, test 2: 50 hot pages, then two sets of 50 pages that are each used once.
#[test]
fn protection_keeps_hot_pages_from_eviction_by_pages_used_once() {
    let hot_out = |stage| {
        let mut memory = SmallMemory::new(stage);
        memory.access(0..50);
        if stage != Stage::Base {
            // Hot pages have a second access, which makes them active.
            for id in (0..50).map(FolioId) {
                memory.lruvec.mark_accessed(id);
                memory.lruvec.mark_accessed(id);
            }
            assert_eq!(lists(&memory.lruvec).active, [50, 0]);
        }
        memory.access(50..100);
        memory.access(100..150);
        let evicted = &memory.swap_out;
        assert_eq!(evicted.len(), 50, "{stage:?}");
        evicted.iter().filter(|&&id| id < 50).count()
    };
    assert_eq!(hot_out(Stage::Base), 50);
    assert_eq!(hot_out(Stage::Protection), 0);
    assert_eq!(hot_out(Stage::Detection), 0);
}

/// Uses 50 hot pages and 50 pages that will become hot; then, in each round, 50 new pages once, and
/// the pages that will become hot again. Returns the swap-ins of each round.
fn cycle_through(rounds: u32) -> (Vec<u64>, SmallMemory) {
    let mut memory = SmallMemory::new(Stage::Protection);
    memory.access(0..50);
    for id in (0..50).map(FolioId) {
        memory.lruvec.mark_accessed(id);
        memory.lruvec.mark_accessed(id);
    }
    memory.access(50..100);
    let mut swap_ins = Vec::new();
    for round in 0..rounds {
        let once = 100 + round * 50;
        memory.access(once..once + 50);
        memory.clear_accessed(0..once + 50);
        let before = memory.swap_in;
        memory.access(50..100);
        memory.clear_accessed(0..once + 50);
        swap_ins.push(memory.swap_in - before);
    }
    (swap_ins, memory)
}

/// Without refault detection, pages of a loop are never activated, and all refault in each round.
/// spec: classic-lru.md 8, test 3.
#[test]
fn without_detection_the_loop_thrashes_for_ever() {
    let (swap_ins, memory) = cycle_through(6);
    assert_eq!(swap_ins, [50; 6]);
    assert_eq!(memory.swap_out.len(), 50 + 6 * 100 - 50);
}

/// workingset.md 12, test 10, with the engine's reclaim: returns the swap-ins of each repetition.
/// The memory has 1000 pages. 500 pages are hot, 500 others will become hot, and each repetition
/// uses 300 new pages once. So between two uses of a page that will become hot, 800 other pages are
/// used: 300 more than fit on the inactive list, but fewer than fit in memory.
fn swap_ins_of_each_repetition(stage: Stage) -> Vec<u64> {
    let mut lruvec = lruvec(stage, 10_000);
    let mut swap_ins = 0;
    let mut access = |lruvec: &mut Lruvec, ids: core::ops::Range<u32>| {
        let before = swap_ins;
        for id in ids.map(FolioId) {
            if lruvec.touch(id) {
                continue;
            }
            swap_ins += u64::from(lruvec.folios().get(id).state() == State::Shadow);
            lruvec.fault_in(id, FolioType::Anon, FaultKind::Refault, true, true);
            lruvec.folios_mut().take_accessed(id);
            while lruvec.resident() > Pages(1000) {
                reclaim(lruvec, 32, 2);
            }
        }
        lruvec.check_invariants(Swappiness::default());
        swap_ins - before
    };
    access(&mut lruvec, 0..500);
    for id in (0..500).map(FolioId) {
        (0..2).for_each(|_| lruvec.mark_accessed(id));
    }
    access(&mut lruvec, 500..1000);
    (0..8)
        .map(|round| {
            let once = 1000 + round * 300;
            access(&mut lruvec, once..once + 300);
            access(&mut lruvec, 500..1000)
        })
        .collect()
}

#[test]
fn detection_ends_what_protection_alone_does_not() {
    let protection = swap_ins_of_each_repetition(Stage::Protection);
    let detection = swap_ins_of_each_repetition(Stage::Detection);
    assert_eq!(
        protection, [500; 8],
        "without detection no page is ever activated"
    );
    assert!(detection[0] == 500 && detection[1] < 500, "{detection:?}");
    assert_eq!(detection[2..], [0; 6], "two rounds at most: {detection:?}");
}

/// An accessed executable file page stays active; another accessed page is deactivated.
/// spec: classic-lru.md 8, test 11.
#[test]
fn executable_pages_in_use_stay_active() {
    let mut lruvec = lruvec(Stage::Detection, 2);
    for id in (0..2).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::FirstTouch, true, true);
        lruvec.mark_accessed(id);
        lruvec.mark_accessed(id);
    }
    lruvec.set_flag(FolioId(0), Flag::Exec, true);
    for _ in 0..3 {
        (0..2).for_each(|id| assert!(lruvec.touch(FolioId(id))));
        lruvec.shrink_active(FolioType::File, 2);
    }
    assert!(word(&lruvec, 0).has(Flag::Active));
    assert!(!word(&lruvec, 1).has(Flag::Active) && word(&lruvec, 1).has(Flag::Workingset));
}

/// classic-lru.md 5.2: active pages that were scanned in vain also count as cost.
#[test]
fn rotations_of_active_pages_cost() {
    let mut lruvec = lruvec(Stage::Detection, 8);
    for id in (0..8).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::FirstTouch, true, true);
        (0..2).for_each(|_| lruvec.mark_accessed(id));
        lruvec.set_flag(id, Flag::Exec, true);
        lruvec.touch(id);
    }
    lruvec.shrink_active(FolioType::File, 2);
    let costs = lruvec.classic().map(ActiveInactive::costs);
    assert_eq!(costs, Some(Costs { anon: 0, file: 2 }));
}

/// Active pages are deactivated only if the inactive list is low, or after an activation by a
/// refault.
/// spec: classic-lru.md 8, test 13.
#[test]
fn the_active_list_is_not_shrunk_without_a_reason() {
    let mut lruvec = lruvec(Stage::Detection, 400);
    for id in (0..400).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::Descriptor, true, true);
    }
    for id in (0..100).map(FolioId) {
        lruvec.mark_accessed(id);
        lruvec.mark_accessed(id);
    }
    reclaim(&mut lruvec, 32, 2);
    assert_eq!(lists(&lruvec).active[1], 100, "enough are inactive");
    assert_eq!(lruvec.stat().get(VmEvent::Pgrefill), 0);
    let evicted = (0..400)
        .map(FolioId)
        .find(|&id| lruvec.folios().get(id).state() == State::Shadow);
    let refault = lruvec.fault_in(
        evicted.expect("evicted"),
        FolioType::File,
        FaultKind::Refault,
        true,
        true,
    );
    assert!(refault.expect("shadow").recent);
    reclaim(&mut lruvec, 32, 2);
    assert!(
        lruvec.stat().get(VmEvent::Pgrefill) > 0,
        "a refault was activated"
    );
}

/// A refault at a distance equal to the competing memory is recent, one page more is not. No page
/// that was never active is counted as restored.
/// spec: workingset.md 12, tests 3 and 9.
#[test]
fn a_refault_is_recent_up_to_the_competing_memory() {
    for (evicted_more, recent) in [(10, true), (11, false)] {
        let mut lruvec = lruvec(Stage::Detection, 100);
        let fault = |lruvec: &mut Lruvec, id| {
            lruvec.fault_in(FolioId(id), FolioType::File, FaultKind::Refault, true, true)
        };
        (0..60).for_each(|id| assert!(fault(&mut lruvec, id).is_none()));
        // There are no anon pages, so a file page competes only with the ten active file pages.
        for id in 50..60 {
            (0..2).for_each(|_| lruvec.mark_accessed(FolioId(id)));
        }
        let mut isolated = Vec::new();
        lruvec.isolate_inactive(
            ScanReason::Direct,
            FolioType::File,
            evicted_more,
            &mut isolated,
        );
        // Page 0 is evicted first: its distance is the number of pages evicted after it.
        isolated
            .iter()
            .for_each(|&id| assert!(lruvec.evicted(id, ScanReason::Direct)));
        let refault = fault(&mut lruvec, 0).expect("a shadow");
        assert_eq!(refault.recent, recent, "{evicted_more}");
        assert_eq!(word(&lruvec, 0).has(Flag::Active), recent);
        let stat = lruvec.stat();
        assert_eq!(stat.get(VmEvent::WorkingsetRefaultFile), 1, "I4: always");
        assert_eq!(stat.get(VmEvent::WorkingsetActivateFile), u64::from(recent));
        assert_eq!(
            stat.get(VmEvent::WorkingsetRestoreFile),
            0,
            "it never was active"
        );
    }
}

#[test]
fn a_deactivated_page_that_refaults_is_restored() {
    let mut lruvec = lruvec(Stage::Detection, 10);
    for id in (0..10).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::Descriptor, true, true);
        (0..2).for_each(|_| lruvec.mark_accessed(id));
    }
    lruvec.shrink_active(FolioType::File, 1);
    let mut isolated = Vec::new();
    lruvec.isolate_inactive(ScanReason::Direct, FolioType::File, 1, &mut isolated);
    assert_eq!(isolated, [FolioId(0)]);
    lruvec.evicted(isolated[0], ScanReason::Direct);
    lruvec.fault_in(isolated[0], FolioType::File, FaultKind::Refault, true, true);
    assert_eq!(lruvec.stat().get(VmEvent::WorkingsetRestoreFile), 1);
    assert!(word(&lruvec, 0).has(Flag::Workingset) && word(&lruvec, 0).has(Flag::Active));
    lruvec.check_invariants(Swappiness::default());
}

/// classic-lru.md 7, I5 and I8, over many passes with pseudo-random accesses.
#[test]
fn a_page_touched_once_is_never_active() {
    let mut lruvec = lruvec(Stage::Detection, 4000);
    let mut x = 0x1234_5678u32;
    for id in 0..4000 {
        lruvec.fault_in(
            FolioId(id),
            FolioType::Anon,
            FaultKind::FirstTouch,
            true,
            true,
        );
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        // The first 100 pages are hot; all others are never touched again.
        lruvec.touch(FolioId(x % 100));
        if id % 100 == 99 {
            let before = lists(&lruvec);
            let shrunk = reclaim(&mut lruvec, 50, x % 4);
            let size: u64 = before.active.iter().chain(&before.inactive).sum();
            assert!(shrunk.scanned <= size + 64, "I8");
            lruvec.check_invariants(Swappiness::default());
        }
    }
    let active = lruvec
        .classic()
        .expect("classic")
        .order(lruvec.folios(), FolioType::Anon, true);
    assert!(active.iter().all(|id| id.0 < 100), "I5");
    assert!(!active.is_empty());
}
