//! A histogram of pages by age: by the time since each page's last use, or by how long each page
//! had been idle when it was used again.
//!
//! Invariant: a bin is at most 1/64 of its lower edge wide. The lower edge stands for the whole
//! bin, so no age is reported too high. Each edge divides the counted pages exactly into pages of
//! that age or more, and younger pages.

use crate::log_histogram::LogHistogram;
use crate::units::{Millis, Pages, scaled};

/// Bins that are at most 1/64 of their lower edge wide.
type Bins = LogHistogram<6>;

/// A number of pages for each age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgeHistogram {
    bins: Bins,
}

impl AgeHistogram {
    /// Creates a histogram without pages.
    #[must_use]
    pub const fn new() -> Self {
        Self { bins: Bins::new() }
    }

    /// Counts `pages` of this age.
    pub fn add(&mut self, age: Millis, pages: Pages) {
        self.bins.add(age.0, pages.0);
    }

    /// Adds the pages of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.bins.merge(&other.bins);
    }

    /// Multiplies each count by `kept / of`, rounded down, and then adds the counts of another
    /// histogram multiplied by `times`.
    pub fn fade(&mut self, (kept, of): (u64, u64), other: &Self, times: u64) {
        for count in &mut self.bins.counts {
            *count = scaled(*count, kept, of);
        }
        for (bin, more) in other.bins.counts.iter().enumerate() {
            self.bins.add_to(bin, more.saturating_mul(times));
        }
    }

    /// Removes all pages, and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bins.counts.clear();
    }

    /// Returns the number of pages in all bins.
    #[must_use]
    pub fn total(&self) -> Pages {
        Pages(self.bins.counts.iter().sum())
    }

    /// Returns the number of pages of this age or more; if `age` is not a bin edge, from the next
    /// lower edge on.
    #[must_use]
    pub fn at_least(&self, age: Millis) -> Pages {
        let from = Bins::bin(age.0).min(self.bins.counts.len());
        Pages(self.bins.counts[from..].iter().sum())
    }

    /// Returns the number of pages younger than `age`: all pages that [`Self::at_least`] does not
    /// count.
    #[must_use]
    pub fn younger_than(&self, age: Millis) -> Pages {
        let to = Bins::bin(age.0).min(self.bins.counts.len());
        Pages(self.bins.counts[..to].iter().sum())
    }

    /// Returns the lower edge and the number of pages of each bin that is not empty, in ascending
    /// order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Millis, Pages)> {
        let bins = self.bins.iter();
        bins.map(|(age, pages)| (Millis(age), Pages(pages)))
    }

    /// Returns the lowest age, at least `least`, such that at most `most` pages have this age or
    /// more. All pages in the bin of `least` count, even those a little younger.
    #[must_use]
    pub fn lowest_with(&self, least: Millis, most: Pages) -> Millis {
        let mut remaining = most.0;
        for at in (Bins::bin(least.0)..self.bins.counts.len()).rev() {
            match remaining.checked_sub(self.bins.counts[at]) {
                Some(less) => remaining = less,
                None => return Millis(Bins::edge(at + 1)).max(least),
            }
        }
        least
    }

    /// Returns the highest age such that at least `wanted` pages have this age or more; zero if
    /// there are fewer pages.
    #[must_use]
    pub fn age_of_oldest(&self, wanted: Pages) -> Millis {
        let mut sum = 0;
        for at in (0..self.bins.counts.len()).rev() {
            sum += self.bins.counts[at];
            if sum >= wanted.0 && sum > 0 {
                return Millis(Bins::edge(at));
            }
        }
        Millis(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn of(ages: &[(u64, u64)]) -> AgeHistogram {
        let mut histogram = AgeHistogram::default();
        for &(age, pages) in ages {
            histogram.add(Millis(age), Pages(pages));
        }
        histogram
    }

    #[test]
    fn edges_divide_the_counted_pages() {
        let histogram = of(&[(0, 5), (1000, 7), (10_000, 2), (10_000, 1)]);
        assert_eq!(histogram.total(), Pages(15));
        let edges: Vec<(Millis, Pages)> = histogram.iter().collect();
        assert_eq!(edges[0], (Millis(0), Pages(5)));
        for (edge, _) in edges {
            let sum = histogram.at_least(edge).0 + histogram.younger_than(edge).0;
            assert_eq!(sum, 15);
        }
        assert_eq!(histogram.at_least(Millis(5000)), Pages(3));
        assert_eq!(histogram.at_least(Millis(20_000)), Pages(0));
    }

    #[test]
    fn counts_fade() {
        let mut pool = of(&[(0, 100), (1000, 3)]);
        pool.fade((1, 2), &of(&[(1000, 2), (9000, 1)]), 10);
        let all: Vec<u64> = pool.iter().map(|(_, pages)| pages.0).collect();
        assert_eq!(all, [50, 21, 10]);
    }

    #[test]
    fn the_lowest_age_has_no_more_pages_than_allowed() {
        let histogram = of(&[(64, 100), (1024, 10), (4096, 4)]);
        let lowest = |least, most| histogram.lowest_with(Millis(least), Pages(most)).0;
        assert_eq!(lowest(64, 14), Bins::edge(Bins::bin(64) + 1));
        assert_eq!(lowest(64, 114), 64);
        assert_eq!(lowest(2000, 3), Bins::edge(Bins::bin(4096) + 1));
        assert_eq!(lowest(2000, 4), 2000);
        assert_eq!(lowest(8192, 0), 8192);
        for most in 0..120 {
            let age = histogram.lowest_with(Millis(0), Pages(most));
            assert!(histogram.at_least(age) <= Pages(most));
        }
    }

    #[test]
    fn the_oldest_pages_have_at_least_the_returned_age() {
        let histogram = of(&[(64, 100), (1024, 10), (4096, 4)]);
        for (wanted, age) in [
            (0, 4096),
            (4, 4096),
            (5, 1024),
            (14, 1024),
            (15, 64),
            (115, 0),
        ] {
            assert_eq!(histogram.age_of_oldest(Pages(wanted)), Millis(age));
        }
        assert_eq!(AgeHistogram::default().age_of_oldest(Pages(0)), Millis(0));
    }
}
