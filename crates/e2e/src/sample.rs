//! The resident anonymous memory of a running tree, as the kernel counts it, over time.
//!
//! Keepers share their target's memory and are not counted again. Pages that a forked child still
//! shares are counted twice: only for programs that do not keep children is a peak meaningful.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::guard::{Outcome, Running};
use crate::proc;

const EVERY: Duration = Duration::from_millis(10);
const RESCAN: Duration = Duration::from_millis(100);

/// Bytes at a time after the start.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Duration,
    /// Anonymous bytes resident in all processes of the tree.
    pub bytes: u64,
}

/// Samples until the process ends.
///
/// # Panics
/// If it does not end within `limit`.
#[must_use]
pub fn until_end(mut running: Running, limit: Duration) -> (Outcome, Vec<Sample>) {
    let begin = Instant::now();
    let (mut samples, mut known) = (Vec::new(), BTreeSet::new());
    let mut scanned: Option<Instant> = None;
    while running.ended().is_none() && begin.elapsed() < limit {
        if scanned.is_none_or(|at| at.elapsed() > RESCAN) {
            known = targets(&running);
            scanned = Some(Instant::now());
        }
        let bytes = known.iter().filter_map(|pid| proc::rss_anon(*pid)).sum();
        samples.push(Sample {
            at: begin.elapsed(),
            bytes,
        });
        std::thread::sleep(EVERY);
    }
    (running.wait(limit.saturating_sub(begin.elapsed())), samples)
}

/// The tree without the manager.
fn targets(running: &Running) -> BTreeSet<u32> {
    let manages = |pid: &u32| proc::comm(*pid).is_some_and(|comm| comm == "pagetide");
    running
        .tree()
        .into_iter()
        .filter(|pid| !manages(pid))
        .collect()
}

/// The most at any time.
#[must_use]
pub fn peak(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.bytes).max().unwrap_or(0)
}

/// The most that was gained within any `window`.
#[must_use]
pub fn growth_within(samples: &[Sample], window: Duration) -> u64 {
    let gained = |from: usize| {
        let first = samples[from];
        let inside = samples[from..]
            .iter()
            .take_while(|sample| sample.at - first.at <= window);
        inside
            .map(|sample| sample.bytes.saturating_sub(first.bytes))
            .max()
            .unwrap_or(0)
    };
    (0..samples.len()).map(gained).max().unwrap_or(0)
}

/// The value that half of the samples do not exceed, of the last four fifths of the run.
#[must_use]
pub fn median_late(samples: &[Sample]) -> u64 {
    let mut late: Vec<u64> = samples[samples.len() / 5..]
        .iter()
        .map(|sample| sample.bytes)
        .collect();
    late.sort_unstable();
    late.get(late.len() / 2).copied().unwrap_or(0)
}
