//! What a page costs: at most 8 bytes all in (design/simulator.md), resident or not, and after any
//! amount of churn.
#![forbid(unsafe_code)]

use engine::{Engine, EngineConfig, FaultKind, FolioId, FolioType, Millis, PageOut, ScanReason};

const PAGES: u32 = 1 << 20;

fn per_page(engine: &Engine) -> f64 {
    let bytes = u32::try_from(engine.lruvec().footprint()).expect("below 4 GiB");
    f64::from(bytes) / f64::from(PAGES)
}

fn full() -> Engine {
    let mut engine = Engine::new(EngineConfig::default(), Millis(0));
    engine.ensure(PAGES as usize);
    for id in (0..PAGES).map(FolioId) {
        engine.fault_in(id, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    engine
}

fn evict(engine: &mut Engine, nr: usize, now: &mut u64) {
    let mut batch = Vec::new();
    while batch.len() < nr {
        let missing = nr - batch.len();
        if engine
            .isolate(missing, ScanReason::Direct, &mut batch)
            .scanned
            == 0
        {
            *now += 1;
            engine.age(Millis(*now));
        }
    }
    for id in batch {
        engine.settle(id, PageOut::Stored, ScanReason::Direct);
    }
}

/// A fixed sequence: the test is the same in every run.
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
    let mut engine = full();
    assert!(
        per_page(&engine) <= 8.0,
        "all resident: {}",
        per_page(&engine)
    );
    let mut now = 0;
    for round in 0..3 {
        evict(&mut engine, (PAGES / 2) as usize, &mut now);
        assert!(
            per_page(&engine) <= 6.1,
            "half of them out: {}",
            per_page(&engine)
        );
        for id in random_ids(round + 1).take(PAGES as usize).map(FolioId) {
            engine.fault_in(id, FolioType::Anon, FaultKind::Refault, true);
            engine.young(id);
        }
        assert!(
            per_page(&engine) <= 8.0,
            "round {round}: {}",
            per_page(&engine)
        );
    }
    engine.check_invariants();
}

/// Pages that are unmapped leave tombstones, and come back: the worst case for lazy removal. The
/// pages in memory count then, since a page that is unmapped needs no place in a list.
#[test]
fn unmapping_and_coming_back_stays_within_a_sixteenth() {
    let mut engine = full();
    for (n, id) in random_ids(7).take(PAGES as usize).map(FolioId).enumerate() {
        engine.unmap(id);
        engine.fault_in(id, FolioType::Anon, FaultKind::FirstTouch, true);
        if n % (1 << 17) == 0 {
            assert!(per_page(&engine) <= 8.25, "step {n}: {}", per_page(&engine));
        }
    }
    engine.check_invariants();
    engine.unmap_range(FolioId(0), PAGES as usize);
    assert_eq!(engine.resident_pages().0, 0);
    assert!(
        per_page(&engine) <= 4.26,
        "all unmapped: {}",
        per_page(&engine)
    );
}
