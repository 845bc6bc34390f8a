//! Tests of how many pages a reclaim takes from each tenant, in batches larger than the kernel's.

use super::*;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Lruvec};
use crate::machine::MachineConfig;
use crate::machine::shrink::tests::Scripted;
use crate::memcg::MemcgLimits;
use crate::units::Millis;
use crate::vmscan::{Memory, PageOut, ScanReason};
use alloc::vec::Vec;

/// Creates a parent, and below it memcgs with these numbers of cold pages.
fn parent_of(sizes: &[u32]) -> (Machine, MemcgId, Vec<MemcgId>) {
    let config = MachineConfig {
        batch: 2048,
        in_turn: true,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let parent = machine.create(MemcgId::ROOT, Millis(0));
    let children = sizes.iter().map(|&size| {
        let id = machine.create(parent, Millis(0));
        machine.lruvec_mut(id).ensure(size as usize);
        for page in (0..size).map(FolioId) {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::Readahead, true);
        }
        (1..4).for_each(|now| machine.age(id, Millis(now)));
        id
    });
    let children = children.collect();
    (machine, parent, children)
}

fn request(nr: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(10))
}

/// Reclaims `nr` pages from `parent`; returns the pages taken from each child, and the number of
/// batches.
fn taken(
    machine: &mut Machine,
    parent: MemcgId,
    children: &[MemcgId],
    nr: u64,
) -> (Vec<u64>, usize) {
    let resident = |machine: &Machine| -> Vec<u64> {
        let resident_of = |&id: &MemcgId| machine.lruvec(id).resident().0;
        children.iter().map(resident_of).collect()
    };
    let before = resident(machine);
    let mut memory = Scripted::new(|_| PageOut::Stored);
    machine.reclaim_subtree(parent, request(nr), &mut memory);
    machine.check_invariants();
    let pairs = before.into_iter().zip(resident(machine));
    (
        pairs.map(|(before, after)| before - after).collect(),
        memory.batches.len(),
    )
}

/// Regression: two tenants were under one limit, and reclaim visited the smaller one first each
/// time, and took all 1,300 pages from it.
#[test]
fn each_tenant_contributes_by_size_whichever_is_first() {
    let (mut machine, parent, children) = parent_of(&[40_000, 10_000, 30_000]);
    for _ in 0..4 {
        let (reclaimed, batches) = taken(&mut machine, parent, &children, 1300);
        assert_eq!(reclaimed.iter().sum::<u64>(), 1300, "{reclaimed:?}");
        for (reclaimed, share) in reclaimed.iter().zip([650, 162, 487]) {
            assert!(reclaimed.abs_diff(share) <= 70, "{reclaimed} for {share}");
        }
        assert!(batches <= 4, "{batches} calls");
    }
}

/// Creates a tenant of 4,000 pages that were just faulted in.
fn young_tenant(machine: &mut Machine) -> MemcgId {
    let id = machine.create(MemcgId::ROOT, Millis(0));
    machine.lruvec_mut(id).ensure(4000);
    for page in (0..4000).map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    id
}

/// A memory in which only the pages of one tenant are idle; those of all others were accessed.
struct IdleIn(MemcgId);

impl Memory for IdleIn {
    fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        let result = match memcg == self.0 {
            true => PageOut::Stored,
            false => PageOut::Referenced,
        };
        outcome.extend(batch.iter().map(|_| result));
    }
}

/// Regression: 24 tenants of 40 MiB touched each of their pages every 2.5 s, and reclaim requested
/// a tenth of their memory again and again. While the memcg LRU only aged them, the pressure rose;
/// then the first two tenants contributed everything. The standard deviation of pages taken from
/// each tenant was 62% of the mean.
#[test]
fn by_the_memcg_lru_tenants_that_must_age_contribute_alike() {
    let config = MachineConfig::of_host();
    let mut machine = Machine::new(config, Millis(0));
    let ids: Vec<MemcgId> = (0..24).map(|_| young_tenant(&mut machine)).collect();
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let result = machine.proactive_reclaim(MemcgId::ROOT, request(9600), &mut memory);
    assert_eq!(result, Ok(Pages(9600)));
    machine.check_invariants();
    let resident = |&id: &MemcgId| machine.lruvec(id).resident().0;
    let reclaimed: Vec<u64> = ids.iter().map(|id| 4000 - resident(id)).collect();
    assert!(
        reclaimed
            .iter()
            .all(|reclaimed| reclaimed.abs_diff(400) <= 64),
        "{reclaimed:?}"
    );
}

/// Regression: a visit of a tenant with young pages only aged the tenant and ended. The tenants
/// with old pages met the whole request: of 24 equal tenants one or two, whose turn changed.
#[test]
fn by_the_memcg_lru_tenants_with_young_pages_contribute_beside_one_with_old_pages() {
    let mut machine = Machine::new(MachineConfig::of_host(), Millis(0));
    let ids: Vec<MemcgId> = (0..8).map(|_| young_tenant(&mut machine)).collect();
    (1..4).for_each(|now| machine.age(ids[3], Millis(now)));
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let result = machine.proactive_reclaim(MemcgId::ROOT, request(3200), &mut memory);
    assert_eq!(result, Ok(Pages(3200)));
    let resident = |&id: &MemcgId| machine.lruvec(id).resident().0;
    let reclaimed: Vec<u64> = ids.iter().map(|id| 4000 - resident(id)).collect();
    let is_alike = |pages: &u64| pages.abs_diff(400) <= 100;
    assert!(reclaimed.iter().all(is_alike), "{reclaimed:?}");
}

/// If one tenant has all requested pages and the others contribute nothing, it contributes all of
/// them: at the last priority its share does not limit it.
#[test]
fn by_the_memcg_lru_one_tenant_can_meet_the_request() {
    let mut machine = Machine::new(MachineConfig::of_host(), Millis(0));
    let ids: Vec<MemcgId> = (0..24).map(|_| young_tenant(&mut machine)).collect();
    let shrunk = machine.reclaim_root(request(2000), &mut IdleIn(ids[7]));
    assert_eq!(shrunk.reclaimed, Pages(2000));
    assert_eq!(machine.lruvec(ids[7]).resident(), Pages(2000));
}

#[test]
fn protected_memory_has_no_share() {
    let (mut machine, parent, children) = parent_of(&[10_000; 3]);
    let protect = |min, low| MemcgLimits {
        min: Pages(min),
        low: Pages(low),
        ..MemcgLimits::default()
    };
    machine.set_limits(children[0], protect(10_000, 0));
    machine.set_limits(children[1], protect(0, 7500));
    let (reclaimed, _) = taken(&mut machine, parent, &children, 1000);
    assert_eq!(
        (reclaimed[0], reclaimed[1] + reclaimed[2]),
        (0, 1000),
        "{reclaimed:?}"
    );
    // Of `children[1]` a quarter can be scanned, of `children[2]` everything.
    assert!(reclaimed[1].abs_diff(200) <= 10, "{reclaimed:?}");
}

/// If each share is smaller than a batch of the kernel's size, whole batches of that size are
/// taken, from one tenant after the other.
#[test]
fn small_shares_go_in_turn() {
    let (mut machine, parent, children) = parent_of(&[1000; 40]);
    let mut sums = [0; 40];
    for _ in 0..20 {
        let (reclaimed, batches) = taken(&mut machine, parent, &children, 256);
        assert!(batches <= 5, "{batches} calls");
        sums.iter_mut()
            .zip(reclaimed)
            .for_each(|(sum, reclaimed)| *sum += reclaimed);
    }
    let (least, most) = (sums.iter().min(), sums.iter().max());
    assert_eq!((least, most), (Some(&128), Some(&128)), "{sums:?}");
}

#[test]
fn a_single_tenant_yields_all_in_one_batch() {
    let (mut machine, _, children) = parent_of(&[10_000]);
    let alone = children[0];
    let reclaimed = taken(&mut machine, alone, &children, 2000);
    assert_eq!(reclaimed, (alloc::vec![2000], 1));
}
