//! A histogram over sizes in pages: counts in bins whose width grows with the size.
//!
//! Invariant: a size below 128 pages has a bin of its own; above, a bin's width is 1/64 of the
//! largest power of two that is not above the bin. Every count that was added is in the bins,
//! however it was spread.

use alloc::vec::Vec;

/// Each doubling of the size is divided into `1 << FINE_BITS` bins.
const FINE_BITS: u32 = 6;
const EXACT: u64 = 2 << FINE_BITS;

/// A histogram: a count for each bin of sizes in pages. The width of the bins grows with the size.
#[derive(Clone, Debug, Default)]
pub(super) struct BySize {
    /// The count of each bin, up to that of the largest size.
    bins: Vec<u64>,
}

/// Returns the bin of a size in pages.
fn bin(size: u64) -> usize {
    if size < EXACT {
        return usize::try_from(size).unwrap_or(usize::MAX);
    }
    let shift = size.ilog2() - FINE_BITS;
    let fine = size >> shift & ((1 << FINE_BITS) - 1);
    ((shift + 1) << FINE_BITS) as usize + usize::try_from(fine).unwrap_or(usize::MAX)
}

/// Returns the lower edge of a bin, in pages.
fn edge(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < EXACT {
        return bin;
    }
    let shift = (bin >> FINE_BITS) - 1;
    // The upper edge of the last bin does not fit into 64 bits.
    let top = (1 << FINE_BITS) | (bin & ((1 << FINE_BITS) - 1));
    u64::try_from(u128::from(top) << shift).unwrap_or(u64::MAX)
}

/// Returns `count * part / of`, rounded down; it cannot overflow because `part <= of`.
fn share(count: u64, part: u64, of: u64) -> u64 {
    debug_assert!(part <= of, "a part is no more than the whole");
    let share = u128::from(count) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl BySize {
    fn add_to(&mut self, at: usize, count: u64) {
        if at >= self.bins.len() {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] = self.bins[at].saturating_add(count);
        debug_assert!(self.bins[at] >= count);
    }

    /// Adds `count` to the bin of `size`.
    pub(super) fn add(&mut self, size: u64, count: u64) {
        if count > 0 {
            self.add_to(bin(size), count);
            debug_assert!(edge(bin(size)) <= size);
        }
    }

    /// Adds `count`, spread evenly over the sizes `from..to`.
    pub(super) fn spread(&mut self, from: u64, to: u64, count: u64) {
        if to <= from + 1 || count == 0 {
            self.add(from, count);
            return;
        }
        let (mut at, mut begin, mut added) = (bin(from), from, 0);
        while begin < to {
            let end = edge(at + 1).min(to);
            let until = share(count, end - from, to - from);
            if until > added {
                self.add_to(at, until - added);
            }
            (at, begin, added) = (at + 1, end, until);
        }
        assert_eq!(added, count, "all of it is in some bin");
    }

    /// Returns the sum of the counts at `size` or above. Of the bin that holds `size`, the part
    /// above it counts in proportion.
    pub(super) fn at_least(&self, size: u64) -> u64 {
        let at = bin(size);
        let above = self.bins.iter().skip(at + 1);
        let above = above.fold(0_u64, |sum, count| sum.saturating_add(*count));
        let Some(own) = self.bins.get(at) else {
            return above;
        };
        let (low, high) = (edge(at), edge(at + 1));
        above.saturating_add(share(*own, high - size, high - low))
    }

    /// Adds the counts of `other`.
    pub(super) fn merge(&mut self, other: &BySize) {
        for (at, count) in other.bins.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.add_to(at, *count);
        }
    }

    /// Halves each count, rounded up, so that a count of 1 stays.
    pub(super) fn halve(&mut self) {
        for count in &mut self.bins {
            *count = count.div_ceil(2);
        }
    }

    /// Returns the bytes allocated on the heap.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.bins.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_edges_are_their_own_bins() {
        let last = bin(u64::MAX);
        assert!((0..last).all(|at| bin(edge(at)) == at && edge(at) < edge(at + 1)));
        assert!((1..=last).all(|at| bin(edge(at) - 1) == at - 1));
        assert_eq!(edge(last + 1), u64::MAX);
    }

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
