//! The classic LRU under a hierarchy: a parent with two children, reclaimed on the parent's behalf.

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

    /// Pages that are used once.
    fn fill(&mut self, child: usize, ids: Range<u32>, ty: FolioType) {
        for id in ids.map(FolioId) {
            let child = self.children[child];
            self.machine
                .fault_in(child, id, ty, FaultKind::Readahead, true);
        }
    }

    /// Pages that are used twice, and so are active.
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
        ReclaimRequest {
            reason,
            nr: Pages(nr),
            swappiness: None,
            now: Millis(1),
        }
    }

    /// Takes at least `nr` pages of `child` on behalf of `target`.
    fn evict(&mut self, target: MemcgId, child: usize, nr: u64) {
        self.protect(child, 0, 0);
        self.protect(1 - child, u64::MAX, 0);
        let request = Self::request(nr, ScanReason::Direct);
        let got = self.machine.reclaim_subtree(target, request, &mut Simple);
        assert!(got.reclaimed >= Pages(nr));
        self.protect(1 - child, 0, 0);
        self.machine.check_invariants();
    }

    /// One pass over `target` at `priority` that wants all it can get.
    fn pass(&mut self, target: MemcgId, priority: u32) -> Shrunk {
        let request = Self::request(u64::MAX, ScanReason::Direct);
        let mut reclaimer = self.machine.reclaimer(target, request, priority);
        while self.machine.step(&mut reclaimer, &mut Simple).is_some() {}
        self.machine.check_invariants();
        self.machine.finish(reclaimer)
    }

    /// Whether the page of the first child comes back as one that should have stayed.
    fn returns(&mut self, id: u32, ty: FolioType) -> bool {
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

/// workingset.md 12, test 8, and I7. A container used its file cache at a distance of 96 pages; its pod, whose limit took
/// the pages, held 500 active ones of a neighbour that could have given way, and the cache was read anew for ever,
/// because the shadow named the container and its 10 active pages.
#[test]
fn the_shadow_names_the_memcg_whose_limit_it_was() {
    let mut family = Family::new(CLASSIC);
    family.fill_active(0, 0..10, File);
    family.fill(0, 10..1000, File);
    family.fill_active(1, 0..500, File);
    family.evict(family.parent, 0, 32);
    family.evict(family.parent, 0, 32);
    assert!(family.returns(10, File), "room for 510");
    let refaults = |child| family.stat(child, VmEvent::WorkingsetRefaultFile);
    assert_eq!((refaults(0), refaults(1)), (1, 0), "counted on the owner");
    let stats = family.machine.lruvec(family.parent).stat();
    assert_eq!(stats.get(VmEvent::WorkingsetRefaultFile), 0);
}

/// workingset.md 12, test 8, the other half: a generation's shadow names the owner, whose aging alone decides.
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
        assert_eq!(family.returns(0, File), recent, "child {aged} has aged");
        assert_eq!(family.stat(0, VmEvent::WorkingsetRefaultFile), 1);
    }
}

/// workingset.md 2, I1. A pod's limit took a page, then a thousand of a neighbour in the same pod: the page came back as
/// recent, for nothing had left its own lists meanwhile.
#[test]
fn the_clock_of_the_target_counts_what_others_lost() {
    for (lost, recent) in [(0, true), (1000, false)] {
        let mut family = Family::new(CLASSIC);
        family.fill_active(0, 0..200, File);
        family.fill(0, 200..1000, File);
        family.fill(1, 0..5000, File);
        family.evict(family.parent, 0, 32);
        if lost > 0 {
            family.evict(family.parent, 1, lost);
        }
        assert_eq!(family.returns(200, File), recent, "{lost} others");
    }
}

/// workingset.md 12, test 7. A memcg was deleted, and pages that had left on its behalf came back as recent by lists
/// that nobody reclaims any more.
#[test]
fn nobody_is_left_to_judge_by() {
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
            assert_eq!(family.returns(200, File), !deleted, "above: {above}");
            let counts = [
                VmEvent::WorkingsetRefaultFile,
                VmEvent::WorkingsetActivateFile,
            ];
            let counts = counts.map(|event| family.stat(0, event));
            assert_eq!(counts, [1, u64::from(!deleted)]);
        }
    }
}

/// classic-lru.md 5.2. One container of a pod swapped for all it was worth, and the pod's reclaim still took 30% of the
/// other's pages from anon, as if that had cost nothing; and so did the machine's, two levels above.
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

/// classic-lru.md 8, test 13, of a target. A pod's cache was read again soon after it had been dropped, and the pod's next
/// reclaim left the active pages of the container beside alone, stale as they were.
#[test]
fn an_activation_anywhere_below_the_target_counts() {
    for back in [false, true] {
        let mut family = Family::new(CLASSIC);
        family.fill_active(0, 0..400, File);
        family.fill(0, 400..2000, File);
        family.fill(1, 0..2000, File);
        family.fill_active(1, 2000..2100, File);
        family.evict(family.parent, 0, 32);
        if back {
            assert!(family.returns(400, File));
        }
        family.pass(family.parent, 2);
        assert_eq!(family.stat(1, VmEvent::Pgrefill) > 0, back);
        // Once a reclaim is over, it is old news.
        family.evict(family.parent, 0, 32);
        let before = family.stat(1, VmEvent::Pgrefill);
        family.pass(family.parent, 2);
        assert_eq!(family.stat(1, VmEvent::Pgrefill), before);
    }
}

/// classic-lru.md 8, test 13, for a small memcg. An activation was old news after the first priority, which looks at nothing of a
/// list below 16 MiB: so no active list of that size was ever shrunk for one.
#[test]
fn an_activation_counts_for_all_priorities_of_a_reclaim() {
    let mut family = Family::new(CLASSIC);
    family.fill_active(0, 0..400, File);
    family.fill(0, 400..2000, File);
    family.evict(family.parent, 0, 32);
    assert_eq!(family.stat(0, VmEvent::Pgrefill), 0);
    assert!(family.returns(400, File));
    family.evict(family.parent, 0, 32);
    assert!(family.stat(0, VmEvent::Pgrefill) > 0);
}

/// classic-lru.md 4.3. A container with more active pages than inactive ones had them deactivated by its pod's reclaim,
/// which had 5000 inactive pages of another to take first.
#[test]
fn whether_inactive_is_low_is_for_the_target_to_say() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..100, File);
    family.fill_active(0, 100..400, File);
    family.fill(1, 0..5000, File);
    family.pass(family.parent, 2);
    assert_eq!(family.stat(0, VmEvent::Pgrefill), 0);
    // Alone it is low.
    family.pass(family.children[0], 2);
    assert!(family.stat(0, VmEvent::Pgrefill) > 0);
}

/// classic-lru.md 5.1, 6. A container without page cache was swapped out while its pod held 4000 pages of cache that
/// nobody had asked for twice.
#[test]
fn cache_of_the_target_is_trimmed_before_anybody_swaps() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..2000, Anon);
    family.fill(1, 0..4000, File);
    family.pass(family.parent, 2);
    assert_eq!(family.stat(0, VmEvent::PgscanAnon), 0);
    assert_eq!(family.stat(1, VmEvent::PgscanFile), 1000);
}

/// classic-lru.md 5.1, 5. On a machine that was full of anon pages, reclaim went after the last 40 file pages, over and
/// over, for `file_is_tiny` was never told.
#[test]
fn the_last_file_pages_of_the_machine_are_spared() {
    let policy = Policy::ActiveInactive(Stage::Detection, Pages(10_000));
    for (free, spared) in [(10, true), (1000, false)] {
        let mut family = Family::new(policy);
        family.fill(0, 0..9950 - free, Anon);
        family.fill(1, 0..40, File);
        family.pass(MemcgId::ROOT, 2);
        let scanned = [(0, VmEvent::PgscanAnon), (1, VmEvent::PgscanFile)];
        let scanned = scanned.map(|(child, event)| family.stat(child, event) > 0);
        assert_eq!(scanned, [spared, !spared], "{free} pages are free");
        // A memcg's reclaim has nothing to do with that.
        let before = family.stat(1, VmEvent::PgscanFile);
        family.pass(family.parent, 2);
        assert!(family.stat(1, VmEvent::PgscanFile) > before);
    }
}

/// classic-lru.md 5.1. Swappiness 0 of the whole machine was taken for a machine without swap, and its last 40 file pages
/// went.
#[test]
fn swappiness_0_of_the_machine_is_no_want_of_swap() {
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
    // A memcg's reclaim never swaps then.
    let before = family.stat(0, VmEvent::PgscanAnon);
    family.pass(family.parent, 2);
    assert_eq!(family.stat(0, VmEvent::PgscanAnon), before);
}

/// classic-lru.md 5.3, lru-gen.md 5.5. A tenant whose memory.low was 90% of its usage gave as much as its neighbour.
#[test]
fn who_is_a_little_above_low_gives_a_little() {
    for policy in [CLASSIC, Policy::default()] {
        let mut family = Family::new(policy);
        family.fill(0, 0..4000, File);
        family.fill(1, 0..4000, File);
        family.protect(0, 0, 3600);
        let before = [0, 1].map(|child| family.stat(child, VmEvent::PgscanFile));
        family.pass(family.parent, 2);
        let after = [0, 1].map(|child| family.stat(child, VmEvent::PgscanFile));
        let scanned = [after[0] - before[0], after[1] - before[1]];
        // A quarter each, by batches of 64 with generations, which count anew what is left after each.
        assert!((100..=128).contains(&scanned[0]), "{policy:?}: {scanned:?}");
        assert!((832..=1000).contains(&scanned[1]), "{scanned:?}");
    }
}

/// classic-lru.md 5.3: what low covers goes only when nothing else is left.
#[test]
fn low_gives_way_when_nothing_else_is_left() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..20, File);
    family.protect(0, 0, 19);
    let request = Family::request(8, ScanReason::Direct);
    let got = family
        .machine
        .reclaim_subtree(family.parent, request, &mut Simple);
    assert!(got.reclaimed > Pages(0));
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
fn canary_a_lruvec_that_nobody_noted() {
    let mut family = Family::new(CLASSIC);
    family.fill(0, 0..10, File);
    family.machine.flush();
    let lruvec = family.machine.lruvecs[family.children[0].index()].as_mut();
    let lruvec = lruvec.expect("there");
    (0..2).for_each(|_| lruvec.mark_accessed(FolioId(0)));
    family.machine.check_invariants();
}
