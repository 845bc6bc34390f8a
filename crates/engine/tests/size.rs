//! Checks the engine's memory for each page: at most 8 bytes, whether the page is resident or not,
//! and after any number of changes.
#![forbid(unsafe_code)]

use engine::memcg::MemcgLimits;
use engine::{
    FaultKind, FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis, PageOut, ScanReason,
};

const ONE: MemcgId = MemcgId::FIRST;

/// Number of page ids.
const PAGES: u32 = 1 << 20;

/// Returns the engine's memory divided by the number of pages, in bytes.
fn per_page(machine: &Machine) -> f64 {
    let bytes = u32::try_from(machine.lruvec(ONE).footprint()).expect("below 4 GiB");
    f64::from(bytes) / f64::from(PAGES)
}

/// Creates a machine with all pages in memory.
fn full() -> Machine {
    let mut machine = Machine::of_one(MachineConfig::default(), MemcgLimits::default(), Millis(0));
    machine.lruvec_mut(ONE).ensure(PAGES as usize);
    for id in (0..PAGES).map(FolioId) {
        machine.fault_in(ONE, id, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    machine
}

/// Evicts `nr` pages; opens generations as long as too few are old enough.
fn evict(machine: &mut Machine, nr: usize, now: &mut u64) {
    let mut batch = Vec::new();
    while batch.len() < nr {
        let missing = nr - batch.len();
        if machine
            .isolate(ONE, missing, ScanReason::Direct, &mut batch)
            .scanned
            == 0
        {
            *now += 1;
            machine.age(ONE, Millis(*now));
        }
    }
    for id in batch {
        machine.finish_page(ONE, id, (PageOut::Stored, ScanReason::Direct));
    }
}

/// Returns page ids from a xorshift generator, which are the same in every run.
fn random_ids(seed: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(seed), |&x| {
        let x = x ^ x << 13;
        let x = x ^ x >> 17;
        Some(x ^ x << 5)
    })
    .map(|x| x % PAGES)
}

#[test]
fn a_million_pages_cost_at_most_eight_bytes_each() {
    let mut machine = full();
    assert!(
        per_page(&machine) <= 8.0,
        "all resident: {}",
        per_page(&machine)
    );
    let mut now = 0;
    for round in 0..3 {
        evict(&mut machine, (PAGES / 2) as usize, &mut now);
        assert!(
            per_page(&machine) <= 6.1,
            "half of them swapped out: {}",
            per_page(&machine)
        );
        for id in random_ids(round + 1).take(PAGES as usize).map(FolioId) {
            machine.fault_in(ONE, id, FolioType::Anon, FaultKind::Refault, true);
            machine.lruvec_mut(ONE).young(id);
        }
        assert!(
            per_page(&machine) <= 8.0,
            "round {round}: {}",
            per_page(&machine)
        );
    }
    machine.check_invariants();
}

/// Pages are unmapped, which leaves tombstones in their lists, and then faulted in again: the worst
/// case for lazy removal from lists. Once all pages are unmapped, the lists need no memory.
#[test]
fn unmapping_and_refaulting_costs_little_more_than_eight_bytes_a_page() {
    let mut machine = full();
    for (n, id) in random_ids(7).take(PAGES as usize).map(FolioId).enumerate() {
        machine.unmap_range(ONE, id, 1);
        machine.fault_in(ONE, id, FolioType::Anon, FaultKind::FirstTouch, true);
        if n % (1 << 17) == 0 {
            assert!(
                per_page(&machine) <= 8.25,
                "step {n}: {}",
                per_page(&machine)
            );
        }
    }
    machine.check_invariants();
    machine.unmap_range(ONE, FolioId(0), PAGES as usize);
    assert_eq!(machine.lruvec(ONE).resident().0, 0);
    assert!(
        per_page(&machine) <= 4.26,
        "all unmapped: {}",
        per_page(&machine)
    );
}
