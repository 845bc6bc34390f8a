//! The numbered tests of memcg-lru.md 10 and reclaim-control.md 11 that need several tenants.

use super::*;
use crate::folio::FolioId;
use crate::lru_gen::Profile;
use crate::lruvec::{FaultKind, Policy};
use crate::memcg::{MemcgEvent, MemcgOp, MemcgProfile, Segment};
use crate::vmscan::{Memory, PageOut, ScanReason, Share, Shrunk, TryAgain};
use crate::vmstat::VmEvent;

/// A memory that pages out every page; its accessed bits are those in the lruvec.
pub(super) struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

pub(super) fn machine(profile: MemcgProfile, tenants: u32, pages: u32) -> (Machine, Vec<MemcgId>) {
    let config = MachineConfig {
        memcg_profile: profile,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let ids: Vec<MemcgId> = (0..tenants)
        .map(|_| machine.create(MemcgId::ROOT, Millis(0)))
        .collect();
    for &id in &ids {
        machine.lruvec_mut(id).ensure(pages as usize);
        fill(&mut machine, id, pages);
    }
    machine.check_invariants();
    (machine, ids)
}

fn fill(machine: &mut Machine, id: MemcgId, pages: u32) {
    for page in (0..pages).map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
    }
}

pub(super) fn request(nr: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Proactive, Pages(nr), Millis(1))
}

impl Machine {
    /// Makes one pass over the memcg LRU at one priority.
    fn shrink_many(&mut self, request: ReclaimRequest, priority: u32) -> Shrunk {
        let mut reclaimer = self.lru_reclaimer((request, priority), request.nr);
        while !self.drive(&mut reclaimer, &mut Simple) {}
        self.finish(reclaimer)
    }

    /// Reclaims from one memcg at one priority; also returns where its memcg LRU entry must move.
    pub(super) fn shrink_one<M: Memory>(
        &mut self,
        id: MemcgId,
        request: ReclaimRequest,
        priority: u32,
        memory: &mut M,
    ) -> (MemcgOp, Shrunk) {
        self.shrink_more((id, None), (request, priority, Share::BySize), memory)
    }
}

pub(super) fn usage(machine: &Machine, id: MemcgId) -> u64 {
    machine.tree().get(id).usage().0
}

pub(super) fn protect(machine: &mut Machine, id: MemcgId, min: u64, low: u64) {
    let limits = MemcgLimits {
        min: Pages(min),
        low: Pages(low),
        ..MemcgLimits::default()
    };
    machine.set_limits(id, limits);
}

/// A memcg below memory.min moves to the young generation without being scanned (I8).
/// spec: memcg-lru.md 10, test 6.
#[test]
fn a_memcg_below_min_becomes_young_without_a_scan() {
    for profile in [MemcgProfile::Seed, MemcgProfile::Newer] {
        let (mut machine, ids) = machine(profile, 1, 100);
        protect(&mut machine, ids[0], 100, 0);
        let (op, shrunk) = machine.shrink_one(ids[0], request(50), 0, &mut Simple);
        assert_eq!((op, shrunk), (MemcgOp::Young, Shrunk::default()));
    }
}

/// A memcg below memory.low moves to the tail at the first visit; at the next visit the event LOW
/// is counted.
/// spec: memcg-lru.md 10, test 7.
#[test]
fn a_memcg_below_low_is_skipped_once() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 1, 100);
    protect(&mut machine, ids[0], 0, 100);
    let (op, shrunk) = machine.shrink_one(ids[0], request(50), 0, &mut Simple);
    assert_eq!((op, shrunk.scanned), (MemcgOp::Tail, 0));
    machine.memcg_lru.rotate(ids[0], op);
    let low = |machine: &Machine| machine.memory_events_local(ids[0]).get(MemcgEvent::Low);
    // A fresh lruvec first drops its empty generations, then ages until it has four, and only then
    // yields pages.
    for attempt in 1..=4 {
        let (_, shrunk) = machine.shrink_one(ids[0], request(50), 0, &mut Simple);
        assert_eq!((low(&machine), shrunk.scanned > 0), (attempt, attempt == 4));
    }
}

/// A memcg that is too small for the priority moves to the tail, and at the next visit to the young
/// generation.
/// spec: memcg-lru.md 10, test 8.
#[test]
fn a_too_small_memcg_moves_to_the_tail_then_young() {
    for profile in [MemcgProfile::Seed, MemcgProfile::Newer] {
        let (mut machine, ids) = machine(profile, 1, 100);
        let (op, _) = machine.shrink_one(ids[0], request(50), 12, &mut Simple);
        assert_eq!(op, MemcgOp::Tail, "{profile:?}");
        machine.memcg_lru.rotate(ids[0], op);
        let (op, _) = machine.shrink_one(ids[0], request(50), 12, &mut Simple);
        assert_eq!(op, MemcgOp::Young, "{profile:?}");
    }
}

/// All pages of an offline memcg are reclaimed; then the memcg is released.
/// spec: memcg-lru.md 10, test 9.
#[test]
fn an_offline_memcg_is_emptied_and_released() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 0);
    for &id in &ids {
        machine.lruvec_mut(id).ensure(1000);
        for page in (0..1000).map(FolioId) {
            machine.fault_in(id, page, FolioType::File, FaultKind::Descriptor, true);
        }
    }
    machine.offline(ids[0]);
    for _ in 0..50 {
        machine.reclaim_root(request(1000), &mut Simple);
        if !machine.tree().exists(ids[0]) {
            break;
        }
        machine.check_invariants();
    }
    assert!(!machine.tree().exists(ids[0]), "released");
    assert_eq!(machine.memcg_lru().slot_of(ids[0]), None);
}

/// Regression: 500 reclaims of the root took nothing from an offline memcg whose anon pages had
/// been touched once. With only two generations no page can be isolated, and an offline memcg was
/// never aged.
#[test]
fn a_dead_tenant_is_gone_within_ten_reclaims() {
    let cases = FolioType::ALL
        .into_iter()
        .flat_map(|ty| (0..5).map(move |ages| (ty, ages)));
    let profiles = [Profile::P616, Profile::P612, Profile::P63];
    for (profile, (ty, ages)) in profiles.into_iter().flat_map(|profile| {
        let cases = cases.clone();
        cases.map(move |case| (profile, case))
    }) {
        let config = MachineConfig {
            policy: Policy::MultiGen(profile),
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let [dead, _] = [(); 2].map(|()| machine.create(MemcgId::ROOT, Millis(0)));
        machine.lruvec_mut(dead).ensure(1000);
        for page in (0..1000).map(FolioId) {
            machine.fault_in(dead, page, ty, FaultKind::FirstTouch, true);
        }
        (0..ages).for_each(|at| machine.age(dead, Millis(at)));
        machine.offline(dead);
        // The first reclaims drop empty generations, until two generations remain.
        let mut reclaims = 0;
        while machine.tree().exists(dead) && usage(&machine, dead) > 0 && reclaims < 500 {
            machine.reclaim_root(request(1000), &mut Simple);
            reclaims += 1;
        }
        assert!(
            reclaims <= 10,
            "{profile:?}, {ty:?} aged {ages} times: {reclaims} reclaims"
        );
    }
}

/// A request for 32 pages among 100 memcgs ends after a few memcgs, and over many requests all age
/// equally often.
/// spec: memcg-lru.md 10, test 13.
#[test]
fn a_direct_reclaimer_visits_few_and_in_the_end_all() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 100, 2000);
    // A fresh lruvec must age before any page can be evicted.
    for &id in &ids {
        (0..2).for_each(|_| machine.age(id, Millis(0)));
    }
    let mut rounds_of = alloc::vec![0u64; ids.len()];
    let max_seq = |machine: &Machine, n: usize| machine.lruvec(ids[n]).lru_gen().max_seq();
    for call in 0..600 {
        let before: Vec<u64> = (0..ids.len()).map(|n| max_seq(&machine, n)).collect();
        let usages: Vec<u64> = ids.iter().map(|&id| usage(&machine, id)).collect();
        let direct = ReclaimRequest {
            reason: ScanReason::Direct,
            now: Millis(call),
            ..request(32)
        };
        let shrunk = machine.shrink_many(direct, 4);
        assert!(shrunk.reclaimed >= Pages(32), "call {call}");
        let touched = (0..ids.len())
            .filter(|&n| usage(&machine, ids[n]) < usages[n])
            .count();
        assert!(touched <= 3, "call {call}: {touched} tenants for 32 pages");
        for n in 0..ids.len() {
            rounds_of[n] += max_seq(&machine, n) - before[n];
        }
        let (least, most) = (rounds_of.iter().min(), rounds_of.iter().max());
        let spread = most.zip(least).map(|(m, l)| m - l);
        assert!(spread <= Some(2), "call {call}: aged unevenly, {spread:?}");
    }
    machine.check_invariants();
}

/// memory.reclaim of a child takes pages of that child only, by the hierarchy.
/// spec: memcg-lru.md 10, test 14.
#[test]
fn reclaim_of_a_child_does_not_touch_the_others() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 4, 500);
    let result = machine.proactive_reclaim(ids[2], request(100), &mut Simple);
    assert!(result.is_ok_and(|result| result >= Pages(100)));
    for &id in &ids {
        assert_eq!(usage(&machine, id) == 500, id != ids[2]);
    }
    let (old, young) = (
        machine.memcg_lru().old_slot(),
        machine.memcg_lru().young_slot(),
    );
    let counts = (
        machine.memcg_lru().nr_memcgs(old),
        machine.memcg_lru().nr_memcgs(young),
    );
    assert_eq!(counts, (4, 1), "the root and three; the aged one is young");
    machine.check_invariants();
}

/// A memcg below memory.min loses no page while others are emptied, in reclaim by the memcg LRU and
/// by the hierarchy.
/// spec: reclaim-control.md 11, test 4.
#[test]
fn a_tenant_below_min_loses_nothing_while_others_are_emptied() {
    for by_lru in [true, false] {
        let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 300);
        protect(&mut machine, ids[0], 300, 0);
        for _ in 0..20 {
            if by_lru {
                machine.reclaim_root(request(300), &mut Simple);
            } else {
                machine.reclaim_subtree(MemcgId::ROOT, request(300), &mut Simple);
            }
            machine.check_invariants();
        }
        assert_eq!(
            (usage(&machine, ids[0]), usage(&machine, ids[1])),
            (300, 0),
            "{by_lru}"
        );
        let more = machine.proactive_reclaim(MemcgId::ROOT, request(32), &mut Simple);
        assert_eq!(
            more,
            Err(TryAgain {
                reclaimed: Pages(0)
            }),
            "{by_lru}"
        );
    }
}

/// Pages of a memcg below memory.low stay as long as others have pages; then the event LOW is
/// counted.
/// spec: reclaim-control.md 11, test 5.
#[test]
fn memcgs_below_low_are_reclaimed_when_nothing_else_remains() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 200);
    protect(&mut machine, ids[0], 0, 200);
    while usage(&machine, ids[1]) > 0 {
        machine.reclaim_subtree(MemcgId::ROOT, request(64), &mut Simple);
        assert_eq!(usage(&machine, ids[0]), 200);
    }
    let low = |machine: &Machine| machine.memory_events_local(ids[0]).get(MemcgEvent::Low);
    assert_eq!(low(&machine), 0);
    machine.reclaim_subtree(MemcgId::ROOT, request(64), &mut Simple);
    assert!(usage(&machine, ids[0]) < 200 && low(&machine) > 0);
    machine.check_invariants();
}

/// Stolen pages count in pgsteal of the memcg that owned them.
/// spec: reclaim-control.md 11, test 15.
#[test]
fn pgsteal_belongs_to_the_owner() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 3, 400);
    let reclaimed = machine
        .proactive_reclaim(MemcgId::ROOT, request(300), &mut Simple)
        .expect("cold");
    let stolen: u64 = ids
        .iter()
        .map(|&id| machine.lruvec(id).stat().pgsteal())
        .sum();
    assert_eq!(stolen, reclaimed.0);
    for &id in &ids {
        let stat = machine.lruvec(id).stat();
        assert_eq!(stat.pgsteal(), 400 - usage(&machine, id));
        assert_eq!(stat.get(VmEvent::PgstealProactive), stat.pgsteal());
    }
}

/// 128 tenants of 480 pages touch pages at random, and reclaimed pages refault at once. The
/// standard deviation of pages taken from each tenant is at most a quarter of the mean, and their
/// sum within 10% of the requests. (A smaller version of the experiment in memcg-lru.md 8.)
#[test]
fn pressure_is_shared_fairly() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 128, 480);
    let mut x = 7u64;
    let (mut requested, writes, size) = (0, 600, 512);
    for now in 1..=writes {
        for &id in &ids {
            for _ in 0..48 {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let page = FolioId(u32::try_from((x >> 33) % 480).unwrap_or(0));
                if !machine.lruvec_mut(id).touch(page) {
                    machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
                }
            }
        }
        let request = ReclaimRequest {
            now: Millis(now),
            ..request(size)
        };
        machine
            .proactive_reclaim(MemcgId::ROOT, request, &mut Simple)
            .expect("cold enough");
        requested += size;
    }
    machine.check_invariants();
    let stolen: Vec<u64> = ids
        .iter()
        .map(|&id| machine.lruvec(id).stat().pgsteal())
        .collect();
    let (sum, n) = (stolen.iter().sum::<u64>(), ids.len() as u64);
    assert!(
        (90..=110).contains(&(sum * 100 / requested)),
        "{sum} of {requested}"
    );
    // Standard deviation <= mean / 4, without a square root: n * (sum of squares) <= (1 + 1/16) *
    // sum^2.
    let squares: u64 = stolen.iter().map(|s| s * s).sum();
    assert!(n * squares * 16 <= 17 * sum * sum, "unfair: {stolen:?}");
}

#[test]
fn soft_limits_and_segments_reach_the_lru() {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 3, 10);
    machine.memcg_lru.soft_limit_exceeded(ids[1]);
    assert_eq!(machine.memcg_lru().segment(ids[1]), Segment::Head);
    machine.check_invariants();
}

/// A walk over the hierarchy, which the memcg LRU replaced, takes pages from every tenant at each
/// write to memory.reclaim, even if fewer tenants would do.
#[test]
fn the_iterator_overshoots_where_the_memcg_lru_does_not() {
    let overshoot = |global| {
        let config = MachineConfig {
            global,
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        for _ in 0..64 {
            let id = machine.create(MemcgId::ROOT, Millis(0));
            machine.lruvec_mut(id).ensure(1000);
            fill(&mut machine, id, 1000);
        }
        let result = machine.proactive_reclaim(MemcgId::ROOT, request(256), &mut Simple);
        machine.check_invariants();
        result.expect("cold").0 * 100 / 256
    };
    assert!(overshoot(GlobalReclaim::MemcgLru) <= 125);
    assert!(overshoot(GlobalReclaim::Iterator) >= 400);
}

/// reclaim-control.md 11, test 13, in a tree: MAX and FAIL are counted at the memcg whose swap.max
/// is exhausted.
#[test]
fn swap_events_name_the_level() {
    let (mut machine, _) = machine(MemcgProfile::Newer, 1, 0);
    let parent = machine.create(MemcgId::ROOT, Millis(0));
    let child = machine.create(parent, Millis(0));
    machine.set_limits(
        parent,
        MemcgLimits {
            swap_max: crate::units::Limit::Bytes(crate::units::Bytes(0)),
            ..MemcgLimits::default()
        },
    );
    machine.lruvec_mut(child).ensure(100);
    fill(&mut machine, child, 100);
    machine.reclaim_subtree(MemcgId::ROOT, request(50), &mut Simple);
    assert_eq!(usage(&machine, child), 100, "anon stays");
    for event in [MemcgEvent::SwapFail, MemcgEvent::SwapMax] {
        let count = |id| machine.memory_events_local(id).get(event);
        assert!(count(child) == 0 && count(parent) > 0, "{event:?}");
    }
    machine.check_invariants();
}
