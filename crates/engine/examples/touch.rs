//! How fast the engine is and what a page costs:
//! `cargo run --release -p engine --example touch -- [PAGES] [LIMIT_PERCENT] [ZIPF]`.
//!
//! One engine, touches drawn once from a zipf distribution over all pages (ZIPF < 1; 0 is uniform)
//! and replayed; a miss faults the page in, and above the limit a batch is evicted.
#![forbid(unsafe_code)]

use engine::lru_gen::IsolateBudget;
use engine::{Engine, EngineConfig, FaultKind, FolioId, FolioType, Millis, PageOut, ScanReason};
use std::time::Instant;

const TOUCHES: usize = 1 << 24;

/// Page numbers in zipf order, scattered over the id space. A fixed seed: runs can be compared.
fn touches(pages: u32, exponent: f64) -> Vec<u32> {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let power = 1.0 / (1.0 - exponent);
    (0..TOUCHES)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let u = f64::from(u32::try_from(x >> 32).unwrap_or(0)) / f64::from(u32::MAX);
            let rank = (u.powf(power) * f64::from(pages)).min(f64::from(pages - 1));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 <= rank < pages"
            )]
            let rank = rank as u64;
            u32::try_from(rank * 2_654_435_761 % u64::from(pages)).unwrap_or(0)
        })
        .collect()
}

fn evict(engine: &mut Engine, batch: &mut Vec<FolioId>, now: &mut u64) {
    batch.clear();
    let swappiness = engine.swappiness();
    let lruvec = engine.lruvec_mut();
    let budget = IsolateBudget::default();
    let done = lruvec.isolate(ScanReason::Background, swappiness, budget, batch);
    if done.scanned == 0 {
        *now += 1;
        engine.lruvec_mut().walk_accessed();
        engine.age(Millis(*now));
        return;
    }
    for &id in &*batch {
        engine.settle(id, PageOut::Stored, ScanReason::Background);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: f64| args.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a command line of an example"
    )]
    let (pages, percent) = (number(63e6) as u32, number(100.0) as u64);
    let ids = touches(pages, number(0.9));
    let limit = u64::from(pages) * percent / 100;
    let mut engine = Engine::new(EngineConfig::default(), Millis(0));
    engine.ensure(pages as usize);
    let (mut batch, mut now, mut resident) = (Vec::new(), 0, 0);
    let mut fault = |engine: &mut Engine, id| {
        engine.fault_in(id, FolioType::Anon, FaultKind::Refault, true);
        resident += 1;
        while resident > limit {
            evict(engine, &mut batch, &mut now);
            resident = engine.resident_pages().0;
        }
    };
    for id in (0..pages).map(FolioId) {
        fault(&mut engine, id);
    }
    for round in 0..4 {
        let start = Instant::now();
        let mut misses = 0u32;
        for id in ids.iter().copied().map(FolioId) {
            if !engine.lruvec_mut().touch(id) {
                fault(&mut engine, id);
                misses += 1;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "round {round}: {:.1} M touches/s, {:.1}% misses, {:.3} bytes/page",
            f64::from(u32::try_from(TOUCHES).unwrap_or(0)) / seconds / 1e6,
            f64::from(misses) * 100.0 / f64::from(u32::try_from(TOUCHES).unwrap_or(1)),
            f64::from(u32::try_from(engine.lruvec().footprint()).unwrap_or(u32::MAX))
                / f64::from(pages),
        );
    }
}
