//! A histogram of stack distances ([`super::Stack`]), and the miss ratios that follow from it.
//!
//! Invariant: misses do not increase with the size. With size 0 every reference misses; with all
//! pages, only first references do.

use super::ratio;

/// Number of entries by which the histogram grows.
const STEP: usize = 1 << 12;

/// A histogram of stack distances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Element `n` is the number of references at distance `n + 1`.
    hits: Vec<u64>,
    references: u64,
    cold: u64,
}

impl Curve {
    /// Counts one reference at this stack distance; `None` for the first reference to a page.
    #[inline]
    pub fn count(&mut self, distance: Option<u32>) {
        self.references += 1;
        let Some(distance) = distance else {
            self.cold += 1;
            return;
        };
        let at = distance as usize - 1;
        if at >= self.hits.len() {
            // The table grows by a fixed number of entries, because a table that doubles would need
            // up to twice the memory.
            self.hits.resize((at + 1).next_multiple_of(STEP), 0);
        }
        self.hits[at] += 1;
    }

    /// Returns the number of references counted.
    #[must_use]
    pub const fn references(&self) -> u64 {
        self.references
    }

    /// Returns the number of different pages: the footprint.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.cold
    }

    /// Returns the misses of an LRU memory, for each of `sizes` (pages).
    #[must_use]
    pub fn misses(&self, sizes: &[u64]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_unstable_by_key(|&n| sizes[n]);
        let mut misses = vec![0; sizes.len()];
        let (mut left, mut from) = (self.references, 0);
        for n in order {
            let to = usize::try_from(sizes[n]).unwrap_or(usize::MAX);
            let to = to.clamp(from, self.hits.len().max(from));
            left -= self.hits.get(from..to).map_or(0, |hits| hits.iter().sum());
            from = to;
            misses[n] = left;
        }
        misses
    }

    /// Returns the miss ratio of an LRU memory of `size` pages.
    #[must_use]
    pub fn miss_ratio(&self, size: u64) -> f64 {
        ratio(self.misses(&[size])[0], self.references)
    }
}
