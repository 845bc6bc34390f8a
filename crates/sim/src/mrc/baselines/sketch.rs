//! Estimates how often each page was counted: a counting Bloom filter (Fan and others, 1998), as
//! libCacheSim uses it in W-TinyLFU.
//!
//! There are 14.4 counters for each page of the memory, so about one estimate in a thousand is too
//! high. Each page has ten of the counters; counting a page increments all ten, and the smallest of
//! them is the estimate.
//!
//! Invariant: an estimate is never below the exact count that is halved at the same times.

use super::xxh64::xxh64;

const PROBES: u32 = 10;
/// Hash seeds of libCacheSim.
const SEEDS: [u64; 2] = [0x1234_5678, 0x1234_4321];
/// Allowed share of wrong estimates, from which the number of counters follows.
const ERROR: f64 = 0.001;
/// ln(2)^2.
const LN2_SQUARED: f64 = 0.480_453_013_918_201;

/// The positions of a page's counters: the first one, and the distance from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    first: u32,
    step: u32,
}

impl Probe {
    /// Returns the positions for the page with this number in the trace.
    #[expect(clippy::cast_possible_truncation, reason = "the low halves are used")]
    pub(super) const fn new(page: u64) -> Self {
        Self {
            first: xxh64(page, SEEDS[0]) as u32,
            step: xxh64(page, SEEDS[1]) as u32,
        }
    }
}

/// The counters.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    counters: Vec<u32>,
    /// 2^64 divided by the number of counters, rounded up. It replaces divisions when remainders
    /// are computed.
    inverse: u64,
}

impl Sketch {
    /// Makes a filter for a memory of `pages` pages.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a size below 2^31"
    )]
    pub(super) fn new(pages: u64) -> Self {
        let counters_per_page = -ERROR.ln() / LN2_SQUARED;
        let len = (counters_per_page * pages as f64)
            .ceil()
            .min(f64::from(i32::MAX)) as u32;
        // With fewer counters, every page would use some counter twice.
        let len = if len < PROBES { 2 * PROBES } else { len };
        Self {
            counters: vec![0; len as usize],
            inverse: u64::MAX / u64::from(len) + 1,
        }
    }

    /// Returns the indices of a page's counters.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than `len`")]
    fn indices(&self, probe: Probe) -> impl Iterator<Item = usize> + use<> {
        let (inverse, len) = (self.inverse, self.counters.len() as u128);
        (0..PROBES).map(move |n| {
            let at = probe.first.wrapping_add(probe.step.wrapping_mul(n));
            // Computes `at % len`, exact for 32 bits (Lemire, Kaser and Kurz 2019).
            let fraction = inverse.wrapping_mul(u64::from(at));
            let index = (u128::from(fraction) * len) >> 64;
            index as usize
        })
    }

    /// Counts a page.
    #[inline]
    pub(super) fn add(&mut self, probe: Probe) {
        for at in self.indices(probe) {
            self.counters[at] = self.counters[at].wrapping_add(1);
        }
    }

    /// Returns how often a page was counted; sometimes a higher number, never a lower one.
    #[inline]
    pub(super) fn estimate(&self, probe: Probe) -> u32 {
        let counts = self.indices(probe).map(|at| self.counters[at]);
        counts.min().unwrap_or(0)
    }

    /// Halves all counters.
    pub(super) fn halve(&mut self) {
        self.counters.iter_mut().for_each(|count| *count >>= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_those_of_division() {
        for pages in [0, 1, 7, 1_000, 75_492, 10_000_000] {
            let sketch = Sketch::new(pages);
            let len = u32::try_from(sketch.counters.len()).expect("below 2^31");
            for page in 0..2_000 {
                let probe = Probe::new(page);
                let at = |n: u32| probe.first.wrapping_add(probe.step.wrapping_mul(n)) % len;
                let divided: Vec<usize> = (0..PROBES).map(|n| at(n) as usize).collect();
                assert_eq!(sketch.indices(probe).collect::<Vec<_>>(), divided);
            }
        }
    }

    #[test]
    fn counts_are_nearly_right_and_halve() {
        let mut sketch = Sketch::new(1_000);
        for page in 0..1_000 {
            (0..page % 7).for_each(|_| sketch.add(Probe::new(page)));
        }
        let estimate = |sketch: &Sketch, page: u64| u64::from(sketch.estimate(Probe::new(page)));
        assert!((0..1_000).all(|page| estimate(&sketch, page) >= page % 7));
        let right = (0..1_000).filter(|&page| estimate(&sketch, page) == page % 7);
        assert!(right.count() > 990);
        sketch.halve();
        assert!((0..1_000).all(|page| estimate(&sketch, page) >= page % 7 / 2));
    }
}
