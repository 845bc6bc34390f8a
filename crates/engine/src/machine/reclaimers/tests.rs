//! Tests of several reclaimers that work at the same time, in any order.

use super::super::tests::{Simple, usage};
use super::*;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::FaultKind;
use crate::machine::MachineConfig;
use crate::units::Millis;
use crate::vmscan::ScanReason;

/// Creates tenants with evictable pages; returns them with the root.
fn tenants(global: GlobalReclaim, nr: u32, pages: u32) -> (Machine, Vec<MemcgId>) {
    let config = MachineConfig {
        global,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let mut all = alloc::vec![MemcgId::ROOT];
    for _ in 0..nr {
        let id = machine.create(MemcgId::ROOT, Millis(0));
        machine.lruvec_mut(id).ensure(pages as usize);
        for page in (0..pages).map(FolioId) {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
        }
        // A fresh lruvec must age before any page can be evicted.
        (0..2).for_each(|_| machine.age(id, Millis(0)));
        all.push(id);
    }
    (machine, all)
}

fn direct(nr: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(1))
}

/// Returns pseudo-random choices that depend only on the seed.
fn picker(seed: u64) -> impl FnMut(usize) -> usize {
    let mut x = seed;
    move |_| {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(x >> 40).unwrap_or(0)
    }
}

/// Runs all `reclaimers` to their end; returns the visited memcgs, in order, and the number of
/// pages reclaimed.
fn drive(
    machine: &mut Machine,
    mut reclaimers: Vec<Reclaimer>,
    pick: &mut dyn FnMut(usize) -> usize,
) -> (Vec<MemcgId>, Pages) {
    let (mut visits, mut reclaimed) = (Vec::new(), Pages(0));
    while !reclaimers.is_empty() {
        let at = pick(reclaimers.len()) % reclaimers.len();
        match machine.step(&mut reclaimers[at], &mut Simple) {
            Some(id) => visits.push(id),
            None => reclaimed.0 += machine.finish(reclaimers.swap_remove(at)).reclaimed.0,
        }
    }
    (visits, reclaimed)
}

/// reclaim-control.md 5.3, and 11, test 14, with memory: in any order, the reclaimers visit all
/// memcgs together, and none twice.
#[test]
fn by_the_hierarchy_each_memcg_is_visited_once() {
    for seed in 0..40 {
        let (mut machine, all) = tenants(GlobalReclaim::Iterator, 20, 100);
        let mut pick = picker(seed);
        for _round in 0..2 {
            let before = usage(&machine, MemcgId::ROOT);
            let new = |_| Reclaimer::by_hierarchy(MemcgId::ROOT, direct(10_000), 4);
            let (mut visits, reclaimed) = drive(&mut machine, (0..4).map(new).collect(), &mut pick);
            visits.sort_unstable();
            assert_eq!(visits, all, "seed {seed}");
            assert_eq!(reclaimed.0, before - usage(&machine, MemcgId::ROOT));
            machine.check_invariants();
        }
    }
}

/// A partial walk ends once enough is reclaimed, and the next walk continues from there.
#[test]
fn the_next_reclaimer_continues_where_the_last_stopped() {
    let (mut machine, all) = tenants(GlobalReclaim::Iterator, 20, 2000);
    let mut order = Vec::new();
    for _ in 0..20 {
        let single = alloc::vec![Reclaimer::by_hierarchy(MemcgId::ROOT, direct(32), 4)];
        let (visits, reclaimed) = drive(&mut machine, single, &mut |_| 0);
        assert!(reclaimed >= Pages(32) && visits.len() <= 2, "{visits:?}");
        order.extend(visits);
    }
    assert_eq!(order, all, "each in its turn");
}

/// Memcgs are released while reclaimers walk over them.
#[test]
fn tenants_may_be_released_during_walks() {
    for seed in 0..40 {
        let (mut machine, all) = tenants(GlobalReclaim::Iterator, 12, 60);
        let mut pick = picker(seed);
        let new = |_| Reclaimer::by_hierarchy(MemcgId::ROOT, direct(10_000), 12);
        let mut reclaimers: Vec<Reclaimer> = (0..3).map(new).collect();
        let (mut visits, mut released) = (Vec::new(), Vec::new());
        while !reclaimers.is_empty() {
            let at = pick(reclaimers.len()) % reclaimers.len();
            match machine.step(&mut reclaimers[at], &mut Simple) {
                Some(id) => visits.push(id),
                None => drop(reclaimers.swap_remove(at)),
            }
            let victim = all[1 + pick(0) % 12];
            if pick(0).is_multiple_of(3) && machine.tree().exists(victim) {
                machine.unmap_range(victim, FolioId(0), 60);
                machine.offline(victim);
                released.push(victim);
            }
            machine.check_invariants();
        }
        visits.sort_unstable();
        let visited = visits.len();
        visits.dedup();
        assert_eq!(
            visits.len(),
            visited,
            "seed {seed}: a memcg was visited twice"
        );
        let missed = all.iter().filter(|id| !visits.contains(id));
        assert!(
            missed.into_iter().all(|id| released.contains(id)),
            "seed {seed}"
        );
    }
}

/// memcg-lru.md 2, 7: reclaimers start at random bins, so that few of them meet. Otherwise eight
/// reclaimers, each of which ends after one tenant, would all reclaim from the first tenant of the
/// same bin.
#[test]
fn by_the_memcg_lru_random_bins_keep_reclaimers_apart() {
    let (mut distinct, rounds) = (0, 100);
    let (mut machine, _) = tenants(GlobalReclaim::MemcgLru, 200, 4000);
    let mut pick = picker(3);
    for _ in 0..rounds {
        let before = usage(&machine, MemcgId::ROOT);
        let reclaimers: Vec<Reclaimer> = (0..8)
            .map(|_| machine.reclaimer(MemcgId::ROOT, direct(32), 4))
            .collect();
        let (mut visits, reclaimed) = drive(&mut machine, reclaimers, &mut pick);
        assert_eq!(
            reclaimed.0,
            before - usage(&machine, MemcgId::ROOT),
            "no page twice"
        );
        assert!(reclaimed >= Pages(8 * 32));
        visits.sort_unstable();
        visits.dedup();
        distinct += visits.len();
    }
    machine.check_invariants();
    // Eight reclaimers that choose one of eight bins each choose 5.25 different ones on average.
    assert!(
        distinct >= rounds * 5,
        "{distinct} tenants by {rounds} times eight"
    );
}

#[test]
fn all_reclaimers_reach_their_aim_in_any_order() {
    for global in [GlobalReclaim::MemcgLru, GlobalReclaim::Iterator] {
        let run = |seed| {
            let (mut machine, _) = tenants(global, 30, 400);
            let before = usage(&machine, MemcgId::ROOT);
            let requests = [64, 32, 500, 100].map(direct);
            let root = MemcgId::ROOT;
            let results = machine.reclaim_together(root, &requests, &mut picker(seed), &mut Simple);
            machine.check_invariants();
            for (shrunk, request) in results.iter().zip(requests) {
                assert!(shrunk.reclaimed >= request.nr, "{global:?} {shrunk:?}");
            }
            let sum: u64 = results.iter().map(|shrunk| shrunk.reclaimed.0).sum();
            assert_eq!(sum, before - usage(&machine, root));
            results
        };
        assert_eq!(run(1), run(1), "the same order has the same result");
    }
}

/// If the target of a reclaim is released with its last page, the reclaim ends.
#[test]
fn a_target_may_be_released_during_its_reclaim() {
    let (mut machine, all) = tenants(GlobalReclaim::Iterator, 2, 0);
    let target = all[1];
    machine.lruvec_mut(target).ensure(200);
    for page in (0..200).map(FolioId) {
        machine.fault_in(target, page, FolioType::File, FaultKind::Descriptor, true);
    }
    machine.offline(target);
    for reason in [ScanReason::Direct, ScanReason::Background] {
        let request = ReclaimRequest {
            reason,
            ..direct(1000)
        };
        if machine.tree().exists(target) {
            machine.reclaim_subtree(target, request, &mut Simple);
        }
    }
    assert!(!machine.tree().exists(target), "emptied and released");
    machine.check_invariants();
}
