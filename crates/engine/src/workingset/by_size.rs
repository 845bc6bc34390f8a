//! A histogram over sizes in pages, in which a count can be spread over a range of sizes.
//!
//! Invariant: the sum of all bins is the sum of all added counts, however these were spread.

use crate::log_histogram::LogHistogram;

/// Counts by size in pages; a bin is at most 1/64 of its lower edge wide.
pub(super) type BySize = LogHistogram<6>;

/// Returns `count * part / of`, rounded down. The result cannot overflow, because `part <= of`.
fn share(count: u64, part: u64, of: u64) -> u64 {
    debug_assert!(part <= of, "a part is no more than the whole");
    let share = u128::from(count) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl BySize {
    /// Adds `count`, spread evenly over the sizes `from..to`.
    pub(super) fn spread(&mut self, from: u64, to: u64, count: u64) {
        if to <= from + 1 || count == 0 {
            self.add(from, count);
            return;
        }
        let (mut at, mut begin, mut added) = (BySize::bin(from), from, 0);
        while begin < to {
            let end = BySize::edge(at + 1).min(to);
            let until = share(count, end - from, to - from);
            if until > added {
                self.add_to(at, until - added);
            }
            (at, begin, added) = (at + 1, end, until);
        }
        assert_eq!(added, count, "all of it is in some bin");
    }

    /// Returns the sum of the counts at `size` or above. The bin that contains `size` counts in
    /// proportion to its part above `size`.
    pub(super) fn at_least(&self, size: u64) -> u64 {
        let at = BySize::bin(size);
        let above = self.counts.iter().skip(at + 1);
        let above = above.fold(0_u64, |sum, count| sum.saturating_add(*count));
        let Some(own) = self.counts.get(at) else {
            return above;
        };
        let (low, high) = (BySize::edge(at), BySize::edge(at + 1));
        above.saturating_add(share(*own, high - size, high - low))
    }

    /// Halves each count, rounded up, so that a count of 1 stays.
    pub(super) fn halve(&mut self) {
        for count in &mut self.counts {
            *count = count.div_ceil(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_count_is_complete_and_even() {
        for (from, to, count) in [
            (0, 1, 7),
            (5, 5, 3),
            (0, 1000, 10),
            (100, 5_000, 1_000_003),
            (u64::MAX - 9, u64::MAX, 100),
        ] {
            let mut sizes = BySize::default();
            sizes.spread(from, to, count);
            assert_eq!(sizes.at_least(0), count, "{from}..{to}");
            let middle = from + (to - from) / 2;
            let above = sizes.at_least(middle).abs_diff(count / 2);
            assert!(to - from < 100 || above <= 1 + count / 50, "{above}");
        }
    }

    #[test]
    fn counts_below_a_size_are_not_at_it() {
        let mut sizes = BySize::default();
        sizes.add(50, 4);
        sizes.add(100_000, 6);
        assert_eq!((sizes.at_least(50), sizes.at_least(51)), (10, 6));
        assert_eq!((sizes.at_least(90_000), sizes.at_least(110_000)), (6, 0));
    }
}
