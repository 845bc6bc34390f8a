//! Measures speed and miss ratios of replays of trace files:
//! `cargo run --release -p sim --example curves -- FILE...`.
//!
//! For each trace: the speed of reading; the exact LRU curve; LRU, CLOCK and OPT with memory for a
//! tenth of the trace's pages. For the multi-gen LRU at 20 limits: full runs, and miniature runs on
//! a sample of the pages, with their errors.
#![forbid(unsafe_code)]

use engine::Policy;
use sim::mrc::{
    Cache, Clock, Curve, EngineRun, Lru, Miniature, NextUses, Stack, opt_misses, ratio,
};
use sim::trace::{Dense, Trace, TraceError, TraceOptions};
use std::path::Path;

fn main() {
    for file in std::env::args().skip(1) {
        if let Err(error) = show(Path::new(&file)) {
            eprintln!("{error}\n  hint: {}", error.remedy);
            std::process::exit(1);
        }
    }
}

fn load(file: &Path) -> Result<Vec<u64>, TraceError> {
    let mut trace = Trace::open(file, &TraceOptions::default())?;
    let (mut pages, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch)? {
        pages.extend(batch.iter().map(|reference| reference.page));
    }
    Ok(pages)
}

/// Returns the CPU seconds of this thread so far, as the scheduler counts them. Unlike elapsed
/// time, these do not grow while other programs run.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text
        .split(' ')
        .next()
        .and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.expect("/proc/thread-self/schedstat begins with a number") / 1e9
}

/// Runs `work` three times. Returns the result and the speed of the run with the median CPU time,
/// in millions of references per second.
fn timed<T>(references: usize, mut work: impl FnMut() -> T) -> (T, f64) {
    let mut runs: Vec<(f64, T)> = (0..3)
        .map(|_| {
            let start = cpu_seconds();
            let result = work();
            (cpu_seconds() - start, result)
        })
        .collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, result) = runs.swap_remove(1);
    let references = u32::try_from(references).unwrap_or(u32::MAX);
    (result, f64::from(references) / seconds / 1e6)
}

fn show(file: &Path) -> Result<(), TraceError> {
    let start = cpu_seconds();
    let pages = load(file)?;
    let (n, seconds) = (pages.len(), cpu_seconds() - start);
    let speed = f64::from(u32::try_from(n).unwrap_or(u32::MAX)) / seconds / 1e6;
    println!(
        "{}: {n} references, read at {:.1} M/s",
        file.display(),
        speed
    );
    let ((dense, ids), speed) = timed(n, || {
        let mut dense = Dense::default();
        let ids: Vec<u32> = pages.iter().map(|&page| dense.id(page)).collect();
        (dense, ids)
    });
    let footprint = u64::from(dense.len());
    println!("  {footprint} pages; dense ids at {speed:.1} M/s");
    let (curve, speed) = timed(n, || {
        let (mut stack, mut curve) = (Stack::default(), Curve::default());
        ids.iter().for_each(|&id| curve.count(stack.access(id)));
        curve
    });
    println!("  exact LRU curve at {speed:.1} M/s");
    for size in [1000, 2000, 5000, 10000, 15000] {
        println!(
            "    {size}: hit {:.2} %",
            100.0 - 100.0 * curve.miss_ratio(size)
        );
    }
    let tenth = footprint / 10;
    let total = n as u64;
    let (lru, speed) = timed(n, || Lru::new(tenth).misses(&ids));
    assert_eq!(curve.misses(&[tenth]), [lru], "the curve is the simulation");
    println!(
        "  at {tenth}: LRU {:.4} ({lru} misses), {speed:.1} M/s",
        ratio(lru, total)
    );
    let (clock, speed) = timed(n, || Clock::new(tenth).misses(&ids));
    println!(
        "  at {tenth}: CLOCK {:.4} ({clock} misses), {speed:.1} M/s",
        ratio(clock, total)
    );
    let uses = NextUses::new(ids.clone());
    let start = cpu_seconds();
    let opt = opt_misses(&uses, tenth);
    println!(
        "  at {tenth}: OPT {:.4}, {:.1} s",
        ratio(opt, total),
        cpu_seconds() - start
    );
    what_if(&pages, &ids, &curve);
    Ok(())
}

fn what_if(pages: &[u64], ids: &[u32], curve: &Curve) {
    let limits: Vec<u64> = (1..=20).map(|n| curve.pages() * n / 20).collect();
    let start = cpu_seconds();
    let full = |&limit: &u64| {
        let misses = EngineRun::new(Policy::default(), limit).misses(ids);
        ratio(misses, ids.len() as u64)
    };
    let full: Vec<f64> = limits.iter().map(full).collect();
    println!(
        "  multi-gen LRU, 20 full runs: {:.1} s",
        cpu_seconds() - start
    );
    for rate in [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01] {
        let start = cpu_seconds();
        let mut mini = Miniature::new(&limits, rate);
        mini.add(|size, batch| Box::new(EngineRun::with_batch(Policy::default(), size, batch)));
        pages
            .chunks(1 << 16)
            .for_each(|pages| mini.replay(pages.iter().copied()));
        let seconds = cpu_seconds() - start;
        println!(
            "    rate {rate}: {} pages, {}; uncorrected {}; {seconds:.1} s",
            mini.sampled_pages(),
            errors(&mini.corrected(0, curve), &full),
            errors(&mini.miss_ratios(0), &full),
        );
    }
    let shown: Vec<String> = full.iter().map(|r| format!("{r:.3}")).collect();
    println!("    full: {}", shown.join(" "));
}

fn errors(ratios: &[f64], full: &[f64]) -> String {
    let errors = ratios.iter().zip(full).map(|(a, b)| (a - b).abs());
    let mean = errors.clone().sum::<f64>() / 20.0;
    format!(
        "mean error {mean:.4}, largest {:.4}",
        errors.fold(0.0, f64::max)
    )
}
