//! Tests of the classic LRU in a tree: a parent with two children, and reclaims that target the
//! parent. The stories call the parent a pod, and its children containers.

mod late;
mod naive;

use crate::active_inactive::Stage;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Policy};
use crate::machine::tests::Simple;
use crate::machine::{GlobalReclaim, Machine, MachineConfig, ReclaimRequest};
use crate::memcg::{MemcgId, MemcgLimits};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{ScanReason, Shrunk};
use crate::vmstat::VmEvent;
use crate::word::State;
use FolioType::{Anon, File};
use core::ops::Range;

const CLASSIC: Policy = Policy::ActiveInactive(Stage::Detection, Pages(1 << 20));

/// The machine, a parent and its two children.
struct Family {
    machine: Machine,
    parent: MemcgId,
    children: [MemcgId; 2],
}

impl Family {
    fn new(policy: Policy) -> Self {
        let config = MachineConfig {
            policy,
            global: GlobalReclaim::Iterator,
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let parent = machine.create(MemcgId::ROOT, Millis(0));
        let children = [0; 2].map(|_| machine.create(parent, Millis(0)));
        for id in [MemcgId::ROOT, parent, children[0], children[1]] {
            machine.lruvec_mut(id).ensure(20_000);
        }
        Self {
            machine,
            parent,
            children,
        }
    }

    /// Faults pages in, so that each is used once.
    fn fill(&mut self, child: usize, ids: Range<u32>, ty: FolioType) {
        for id in ids.map(FolioId) {
            let child = self.children[child];
            self.machine
                .fault_in(child, id, ty, FaultKind::Readahead, true);
        }
    }

    /// Faults pages in and uses them a second time, so that they are active.
    fn fill_active(&mut self, child: usize, ids: Range<u32>, ty: FolioType) {
        self.fill(child, ids.clone(), ty);
        for id in ids.map(FolioId) {
            let lruvec = self.machine.lruvec_mut(self.children[child]);
            (0..2).for_each(|_| lruvec.mark_accessed(id));
        }
    }

    fn protect(&mut self, child: usize, min: u64, low: u64) {
        let limits = MemcgLimits {
            min: Pages(min),
            low: Pages(low),
            ..MemcgLimits::default()
        };
        self.machine.set_limits(self.children[child], limits);
    }

    fn request(nr: u64, reason: ScanReason) -> ReclaimRequest {
        ReclaimRequest::new(reason, Pages(nr), Millis(1))
    }

    /// Takes at least `nr` pages of `child`, in a reclaim of `target`.
    fn evict(&mut self, target: MemcgId, child: usize, nr: u64) {
        self.protect(child, 0, 0);
        self.protect(1 - child, u64::MAX, 0);
        let request = Self::request(nr, ScanReason::Direct);
        let shrunk = self.machine.reclaim_subtree(target, request, &mut Simple);
        assert!(shrunk.reclaimed >= Pages(nr));
        self.protect(1 - child, 0, 0);
        self.machine.check_invariants();
    }

    /// Makes one pass over `target` at `priority`, with an unlimited request.
    fn pass(&mut self, target: MemcgId, priority: u32) -> Shrunk {
        let request = Self::request(u64::MAX, ScanReason::Direct);
        let mut reclaimer = self.machine.reclaimer(target, request, priority);
        while self.machine.step(&mut reclaimer, &mut Simple).is_some() {}
        self.machine.check_invariants();
        self.machine.finish(reclaimer)
    }

    /// Refaults a page of the first child; returns whether the refault was recent.
    fn refault_is_recent(&mut self, id: u32, ty: FolioType) -> bool {
        let child = self.children[0];
        let word = self.machine.lruvec(child).folios().get(FolioId(id));
        assert_eq!(word.state(), State::Shadow);
        let refault = self
            .machine
            .fault_in(child, FolioId(id), ty, FaultKind::Refault, true);
        self.machine.check_invariants();
        refault.expect("a shadow").recent
    }

    fn stat(&self, child: usize, event: VmEvent) -> u64 {
        self.machine.lruvec(self.children[child]).stat().get(event)
    }
}

/// Regression: workingset.md 12, test 8, and I7. A container used its page cache at a refault
/// distance of 96 pages. Reclaim for the pod's limit evicted these pages, although a neighbour in
/// the pod had 500 active pages that could have been evicted instead. The cache was read from disk
/// again and again, because the shadow named the container, with its 10 active pages, instead of
/// the pod.
#[test]
fn the_shadow_names_the_memcg_with_the_exceeded_limit() {
    let mut family = Family::new(CLASSIC);
    family.fill_active(0, 0..10, File);
    family.fill(0, 10..1000, File);
    family.fill_active(1, 0..500, File);
    family.evict(family.parent, 0, 32);
    family.evict(family.parent, 0, 32);
    assert!(family.refault_is_recent(10, File), "room for 510");
    let refaults = |child| family.stat(child, VmEvent::WorkingsetRefaultFile);
    assert_eq!((refaults(0), refaults(1)), (1, 0), "counted on the owner");
    let stats = family.machine.lruvec(family.parent).stat();
    assert_eq!(stats.get(VmEvent::WorkingsetRefaultFile), 0);
}

/// workingset.md 12, test 8, for the multi-gen LRU: its shadow names the page's owner, so only the
/// owner's aging decides.
#[test]
fn a_generations_shadow_names_the_owner() {
    for (aged, recent) in [(1, true), (0, false)] {
        let mut family = Family::new(Policy::default());
        family.fill(0, 0..1000, File);
        family.fill(1, 0..1000, File);
        family.evict(family.parent, 0, 32);
        for now in (2..10).map(Millis) {
            family.machine.age(family.children[aged], now);
            family.machine.age(family.parent, now);
        }
        assert_eq!(
            family.refault_is_recent(0, File),
            recent,
            "child {aged} has aged"
        );
        assert_eq!(family.stat(0, VmEvent::WorkingsetRefaultFile), 1);
    }
}

/// Regression: workingset.md 2, I1. Reclaim for a pod's limit evicted a page of one container, and
/// then a thousand pages of another. The refault of the page counted as recent, because nothing had
/// been evicted from the lists of its own container meanwhile.
#[test]
fn the_clock_of_the_target_counts_evictions_from_others() {
    for (lost, recent) in [(0, true), (1000, false)] {
        let mut family = Family::new(CLASSIC);
        family.fill_active(0, 0..200, File);
        family.fill(0, 200..1000, File);
        family.fill(1, 0..5000, File);
        family.evict(family.parent, 0, 32);
        if lost > 0 {
            family.evict(family.parent, 1, lost);
        }
        assert_eq!(family.refault_is_recent(200, File), recent, "{lost} others");
    }
}

/// Regression: workingset.md 2. Reclaim for a container's own limit evicted a few pages; then
/// reclaim for its pod's limit evicted hundreds of the container's pages. The latter advanced the
/// container's clock, too, so the refault of a page evicted for the container's own limit was not
/// recent. The kernel advances only the clocks of the reclaim's target and of the memcgs above it.
#[test]
fn reclaim_of_a_parent_leaves_the_clocks_of_its_children() {
    let mut family = Family::new(CLASSIC);
    family.fill_active(0, 0..200, File);
    family.fill(0, 200..2000, File);
    let child = family.children[0];
    family.evict(child, 0, 56);
    let clock = |family: &mut Family, id| family.machine.level(id).nonresident_age;
    let parent = family.parent;
    let (clock_before, parent_clock_before) =
        (clock(&mut family, child), clock(&mut family, parent));
    family.evict(family.parent, 0, 800);
    assert_eq!(clock(&mut family, child), clock_before);
    assert!(clock(&mut family, parent) >= parent_clock_before + 800);
    assert!(
        family.refault_is_recent(200, File),
        "nothing else was evicted for the child"
    );
}

/// Regression: workingset.md 12, test 7. After a memcg had been deleted, refaults of pages that its
/// reclaim had evicted counted as recent: they were compared with lists from which nothing is
/// reclaimed any more.
#[test]
fn refaults_after_the_target_was_deleted_are_not_recent() {
    for deleted in [false, true] {
        for above in [false, true] {
            let mut family = Family::new(CLASSIC);
            family.fill_active(0, 0..200, File);
            family.fill(0, 200..1000, File);
            let target = if above {
                family.parent
            } else {
                family.children[0]
            };
            family.evict(target, 0, 32);
            if deleted {
                family.machine.offline(target);
            }
            assert_eq!(
                family.refault_is_recent(200, File),
                !deleted,
                "above: {above}"
            );
            let counts = [
                VmEvent::WorkingsetRefaultFile,
                VmEvent::WorkingsetActivateFile,
            ];
            let counts = counts.map(|event| family.stat(0, event));
            assert_eq!(counts, [1, u64::from(!deleted)]);
        }
    }
}

/// Regression: classic-lru.md 5.2. One container of a pod swapped heavily. Of the pages that the
/// pod's reclaim scanned in the other container, 30% were still anon, as if swapping had cost
/// nothing. Reclaim of the whole machine, two levels above, did the same.
#[test]
fn the_balance_goes_by_the_costs_of_the_target() {
    for of_machine in [false, true] {
        let mut family = Family::new(CLASSIC);
        family.fill(0, 0..2000, Anon);
        family.fill(0, 2000..3000, File);
        family.fill_active(0, 3000..5000, File);
        family.fill(1, 0..2000, Anon);
        family.evict(family.parent, 1, 1000);
        family.protect(1, u64::MAX, 0);
        let target = match of_machine {
            false => family.parent,
            true => MemcgId::ROOT,
        };
        family.pass(target, 2);
        let scanned = family.stat(0, VmEvent::PgscanAnon);
        let anon = 500 * 89 / (89 + 419);
        assert_eq!(scanned, anon, "17.6%: cost on anon alone, {target:?}");
    }
}

/// Regression: classic-lru.md 8, test 13, for a target. One container read its page cache again
/// soon after it had been evicted. The next reclaim of the pod did not deactivate the stale active
/// pages of the other container.
#[test]
fn an_activation_anywhere_below_the_target_counts() {
    for refaulted in [false, true] {
        let mut family = Family::new(CLASSIC);
        family.fill_active(0, 0..400, File);
        family.fill(0, 400..2000, File);
        family.fill(1, 0..2000, File);
        family.fill_active(1, 2000..2100, File);
        family.evict(family.parent, 0, 32);
        if refaulted {
            assert!(family.refault_is_recent(400, File));
        }
        family.pass(family.parent, 2);
        assert_eq!(family.stat(1, VmEvent::Pgrefill) > 0, refaulted);
        // Once a reclaim has ended, the activation does not count any more.
        family.evict(family.parent, 0, 32);
        let before = family.stat(1, VmEvent::Pgrefill);
        family.pass(family.parent, 2);
        assert_eq!(family.stat(1, VmEvent::Pgrefill), before);
    }
}

/// Regression: classic-lru.md 8, test 13, for a small memcg. An activation was forgotten after the
/// first priority, at which a list below 16 MiB is not scanned at all. So no active list of that
/// size was ever shrunk because of an activation.
#[test]
fn an_activation_counts_for_all_priorities_of_a_reclaim() {
    let mut family = Family::new(CLASSIC);
    family.fill_active(0, 0..400, File);
    family.fill(0, 400..2000, File);
    family.evict(family.parent, 0, 32);
    assert_eq!(family.stat(0, VmEvent::Pgrefill), 0);
    assert!(family.refault_is_recent(400, File));
    family.evict(family.parent, 0, 32);
    assert!(family.stat(0, VmEvent::Pgrefill) > 0);
}

/// Regression: classic-lru.md 4.3. The pod's reclaim deactivated pages of a container with more
/// active than inactive pages, although another container of the pod had 5000 inactive pages to
/// take first.
#[test]
fn the_targets_lists_decide_whether_inactive_is_low() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..100, File);
    family.fill_active(0, 100..400, File);
    family.fill(1, 0..5000, File);
    family.pass(family.parent, 2);
    assert_eq!(family.stat(0, VmEvent::Pgrefill), 0);
    // For the container alone, the inactive list is low.
    family.pass(family.children[0], 2);
    assert!(family.stat(0, VmEvent::Pgrefill) > 0);
}

/// Regression: classic-lru.md 5.1, 6. A container without page cache was swapped out, although its
/// pod had 4000 pages of cache that had been used only once.
#[test]
fn cache_of_the_target_is_trimmed_before_any_memcg_swaps() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..2000, Anon);
    family.fill(1, 0..4000, File);
    family.pass(family.parent, 2);
    assert_eq!(family.stat(0, VmEvent::PgscanAnon), 0);
    assert_eq!(family.stat(1, VmEvent::PgscanFile), 1000);
}

/// Regression: classic-lru.md 5.1, 5. On a machine full of anon pages, reclaim scanned the last 40
/// file pages over and over, because `file_is_tiny` was never set.
#[test]
fn the_last_file_pages_of_the_machine_are_not_scanned() {
    let policy = Policy::ActiveInactive(Stage::Detection, Pages(10_000));
    for (free, is_kept) in [(10, true), (1000, false)] {
        let mut family = Family::new(policy);
        family.fill(0, 0..9950 - free, Anon);
        family.fill(1, 0..40, File);
        family.pass(MemcgId::ROOT, 2);
        let scanned = [(0, VmEvent::PgscanAnon), (1, VmEvent::PgscanFile)];
        let scanned = scanned.map(|(child, event)| family.stat(child, event) > 0);
        assert_eq!(scanned, [is_kept, !is_kept], "{free} pages are free");
        // That rule does not apply to a memcg's reclaim.
        let before = family.stat(1, VmEvent::PgscanFile);
        family.pass(family.parent, 2);
        assert!(family.stat(1, VmEvent::PgscanFile) > before);
    }
}

/// Regression: classic-lru.md 5.1. With swappiness 0 reclaim of the whole machine acted as if it
/// had no swap, and evicted the last 40 file pages.
#[test]
fn swappiness_0_of_the_machine_is_not_lack_of_swap() {
    let mut family = Family::new(Policy::ActiveInactive(Stage::Detection, Pages(10_000)));
    family.fill(0, 0..9940, Anon);
    family.fill(1, 0..40, File);
    for child in family.children {
        family.machine.set_swappiness(child, Swappiness::FILE_ONLY);
    }
    family.pass(MemcgId::ROOT, 2);
    let scanned = [(0, VmEvent::PgscanAnon), (1, VmEvent::PgscanFile)];
    let scanned = scanned.map(|(child, event)| family.stat(child, event) > 0);
    assert_eq!(scanned, [true, false]);
    // With swappiness 0 a memcg's reclaim never swaps.
    let before = family.stat(0, VmEvent::PgscanAnon);
    family.pass(family.parent, 2);
    assert_eq!(family.stat(0, VmEvent::PgscanAnon), before);
}

/// Regression: classic-lru.md 5.3, lru-gen.md 5.5. As much was taken from a tenant with memory.low
/// at 90% of its usage as from its neighbour.
#[test]
fn a_tenant_barely_above_low_loses_few_pages() {
    for policy in [CLASSIC, Policy::default()] {
        let mut family = Family::new(policy);
        family.fill(0, 0..4000, File);
        family.fill(1, 0..4000, File);
        family.protect(0, 0, 3600);
        let before = [0, 1].map(|child| family.stat(child, VmEvent::PgscanFile));
        family.pass(family.parent, 2);
        let after = [0, 1].map(|child| family.stat(child, VmEvent::PgscanFile));
        let scanned = [after[0] - before[0], after[1] - before[1]];
        // A quarter of the pages of each, taken in batches of 64. With generations, each batch
        // counts what remains anew.
        assert!((100..=128).contains(&scanned[0]), "{policy:?}: {scanned:?}");
        assert!((832..=1000).contains(&scanned[1]), "{scanned:?}");
    }
}

/// classic-lru.md 5.3: pages that low covers are evicted only when nothing else remains.
#[test]
fn low_is_reclaimed_when_nothing_else_remains() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..20, File);
    family.protect(0, 0, 19);
    let request = Family::request(8, ScanReason::Direct);
    let shrunk = family
        .machine
        .reclaim_subtree(family.parent, request, &mut Simple);
    assert!(shrunk.reclaimed > Pages(0));
}

#[test]
#[should_panic(expected = "the level of")]
fn canary_a_page_too_many() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..10, File);
    family.machine.flush();
    let node = family.machine.hierarchy.node(family.parent);
    node.level.sizes.inactive[1] += 1;
    family.machine.check_invariants();
}

#[test]
#[should_panic(expected = "the clock of")]
fn canary_a_clock_that_lags_behind_its_childrens() {
    let mut family = Family::new(CLASSIC);
    family.fill_active(0, 0..10, File);
    family.machine.flush();
    let node = family.machine.hierarchy.node(MemcgId::ROOT);
    node.level.nonresident_age -= 1;
    family.machine.check_invariants();
}

#[test]
#[should_panic(expected = "has changed unseen")]
fn canary_a_changed_lruvec_without_a_note() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..10, File);
    family.machine.flush();
    let lruvec = family.machine.lruvecs[family.children[0].index()].as_mut();
    let lruvec = lruvec.expect("there");
    (0..2).for_each(|_| lruvec.mark_accessed(FolioId(0)));
    family.machine.check_invariants();
}
