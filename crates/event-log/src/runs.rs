//! The differences between two scans: the pages whose bits differ, as runs of consecutive pages.
//!
//! Invariant: runs ascend, with at least one page between two runs. Applying the same runs twice
//! restores the bits.

use std::collections::BTreeSet;

use crate::pages::{CHUNK_PAGES, Pages, Planes, WORD_PAGES};

/// A run of consecutive pages of one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number of the run's first page.
    pub(crate) first: u64,
    /// Number of pages, at least 1.
    pub(crate) pages: u64,
}

/// Returns the runs of pages whose bits of one kind differ between `before` and `after`.
pub(crate) fn differing(before: &Pages, after: &Pages, kind: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let numbers: BTreeSet<u64> = before.0.keys().chain(after.0.keys()).copied().collect();
    for number in numbers {
        let one = before.0.get(&number).map(|planes| planes.plane(kind));
        let other = after.0.get(&number).map(|planes| planes.plane(kind));
        let (one, other) = (one.unwrap_or(&[0; 8]), other.unwrap_or(&[0; 8]));
        for (at, (one, other)) in (0..).zip(one.iter().zip(other)) {
            add_word(
                &mut runs,
                number * CHUNK_PAGES + at * WORD_PAGES,
                one ^ other,
            );
        }
    }
    runs
}

/// Adds runs for the set bits of `bits`; its lowest bit stands for page `first`.
fn add_word(runs: &mut Vec<Run>, first: u64, mut bits: u64) {
    let mut at = first;
    while bits != 0 {
        let zeros = bits.trailing_zeros();
        bits >>= zeros;
        let ones = bits.trailing_ones();
        at += u64::from(zeros);
        let pages = u64::from(ones);
        match runs.last_mut() {
            Some(run) if run.first + run.pages == at => run.pages += pages,
            _ => runs.push(Run { first: at, pages }),
        }
        at += pages;
        bits = bits.checked_shr(ones).unwrap_or(0);
    }
}

/// Calls `each` for each chunk that contains pages of the run, with the chunk's number and a mask
/// of the run's pages in the chunk's words. Stops when `each` returns false.
pub(crate) fn masks(run: Run, mut each: impl FnMut(u64, &[u64; 8]) -> bool) {
    let (mut at, end) = (run.first, run.first + run.pages);
    while at < end {
        let number = at / CHUNK_PAGES;
        let until = end.min((number + 1) * CHUNK_PAGES);
        let mut words = [0; 8];
        for (word, mask) in (0..).zip(&mut words) {
            let base = number * CHUNK_PAGES + word * WORD_PAGES;
            *mask = below(until.saturating_sub(base)) & !below(at.saturating_sub(base));
        }
        if !each(number, &words) {
            return;
        }
        at = until;
    }
}

/// Returns a mask of the lowest `bits` bits.
const fn below(bits: u64) -> u64 {
    match bits {
        0..WORD_PAGES => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// Inverts the bits of one kind in `planes` where the mask `words` has ones.
pub(crate) fn toggle(planes: &mut Planes, kind: usize, words: &[u64; 8]) {
    for (word, mask) in planes.plane_mut(kind).iter_mut().zip(words) {
        *word ^= mask;
    }
}
