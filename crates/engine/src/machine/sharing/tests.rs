//! How much is taken from each tenant, in batches larger than the kernel's.

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
    let below = sizes.iter().map(|&size| {
        let id = machine.create(parent, Millis(0));
        machine.lruvec_mut(id).ensure(size as usize);
        for page in (0..size).map(FolioId) {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::Readahead, true);
        }
        (1..4).for_each(|now| machine.age(id, Millis(now)));
        id
    });
    let below = below.collect();
    (machine, parent, below)
}

fn request(nr: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(10))
}

/// Returns the pages taken from each memcg, and the number of batches.
fn given(machine: &mut Machine, parent: MemcgId, below: &[MemcgId], nr: u64) -> (Vec<u64>, usize) {
    let left = |machine: &Machine| -> Vec<u64> {
        let of = |&id: &MemcgId| machine.lruvec(id).resident().0;
        below.iter().map(of).collect()
    };
    let before = left(machine);
    let mut memory = Scripted::new(|_| PageOut::Stored);
    machine.reclaim_subtree(parent, request(nr), &mut memory);
    machine.check_invariants();
    let pairs = before.into_iter().zip(left(machine));
    (
        pairs.map(|(before, after)| before - after).collect(),
        memory.batches.len(),
    )
}

/// Regression: two tenants were under one limit, and reclaim met the smaller one first each time.
/// It took 1,300 of 1,300 pages from one of them, and none from the other.
#[test]
fn each_tenant_contributes_by_size_whichever_is_first() {
    let (mut machine, parent, below) = parent_of(&[40_000, 10_000, 30_000]);
    for _ in 0..4 {
        let (got, batches) = given(&mut machine, parent, &below, 1300);
        assert_eq!(got.iter().sum::<u64>(), 1300, "{got:?}");
        for (got, share) in got.iter().zip([650, 162, 487]) {
            assert!(got.abs_diff(share) <= 70, "{got} for {share}");
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

/// A memory in which only the pages of one tenant are idle.
struct IdleIn(MemcgId);

impl Memory for IdleIn {
    fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        let what = match memcg == self.0 {
            true => PageOut::Stored,
            false => PageOut::Referenced,
        };
        outcome.extend(batch.iter().map(|_| what));
    }
}

/// Regression: 24 tenants of 40 MiB touched each of their pages every 2.5 s, and a tenth of their
/// memory was requested again and again. While the memcg LRU only aged them, the priority rose;
/// then the first two tenants contributed everything, and the pages taken from each spread by 62%
/// of their mean.
#[test]
fn by_the_memcg_lru_tenants_that_must_age_contribute_alike() {
    let config = MachineConfig::of_host();
    let mut machine = Machine::new(config, Millis(0));
    let ids: Vec<MemcgId> = (0..24).map(|_| young_tenant(&mut machine)).collect();
    let mut memory = Scripted::new(|_| PageOut::Stored);
    let got = machine.proactive_reclaim(MemcgId::ROOT, request(9600), &mut memory);
    assert_eq!(got, Ok(Pages(9600)));
    machine.check_invariants();
    let left = |&id: &MemcgId| machine.lruvec(id).resident().0;
    let got: Vec<u64> = ids.iter().map(|id| 4000 - left(id)).collect();
    assert!(got.iter().all(|got| got.abs_diff(400) <= 64), "{got:?}");
}

/// One tenant that has what is requested contributes it, although all others contribute nothing:
/// at the last priority no tenant's part limits it.
#[test]
fn by_the_memcg_lru_one_tenant_can_meet_the_request() {
    let mut machine = Machine::new(MachineConfig::of_host(), Millis(0));
    let ids: Vec<MemcgId> = (0..24).map(|_| young_tenant(&mut machine)).collect();
    let got = machine.reclaim_root(request(2000), &mut IdleIn(ids[7]));
    assert_eq!(got.reclaimed, Pages(2000));
    assert_eq!(machine.lruvec(ids[7]).resident(), Pages(2000));
}

#[test]
fn protected_memory_has_no_share() {
    let (mut machine, parent, below) = parent_of(&[10_000; 3]);
    let protect = |min, low| MemcgLimits {
        min: Pages(min),
        low: Pages(low),
        ..MemcgLimits::default()
    };
    machine.set_limits(below[0], protect(10_000, 0));
    machine.set_limits(below[1], protect(0, 7500));
    let (got, _) = given(&mut machine, parent, &below, 1000);
    assert_eq!((got[0], got[1] + got[2]), (0, 1000), "{got:?}");
    // A quarter of the first can be scanned, and all of the second.
    assert!(got[1].abs_diff(200) <= 10, "{got:?}");
}

/// If each tenant's share is smaller than a batch of the kernel's, whole such batches are taken,
/// from one tenant after the other.
#[test]
fn small_shares_go_in_turn() {
    let (mut machine, parent, below) = parent_of(&[1000; 40]);
    let mut sums = [0; 40];
    for _ in 0..20 {
        let (got, batches) = given(&mut machine, parent, &below, 256);
        assert!(batches <= 5, "{batches} calls");
        sums.iter_mut().zip(got).for_each(|(sum, got)| *sum += got);
    }
    let (least, most) = (sums.iter().min(), sums.iter().max());
    assert_eq!((least, most), (Some(&128), Some(&128)), "{sums:?}");
}

#[test]
fn a_single_tenant_yields_all_in_one_batch() {
    let (mut machine, _, below) = parent_of(&[10_000]);
    let alone = below[0];
    let got = given(&mut machine, alone, &below, 2000);
    assert_eq!(got, (alloc::vec![2000], 1));
}
