//! A histogram whose bins become wider with the value. Used for durations (milliseconds) and sizes
//! (pages).
//!
//! Invariant: each value has exactly one bin, bins are in order, and a lower edge is in its own
//! bin. Each value below `2 << FINE_BITS` has its own bin; the width of a higher bin is at most its
//! lower edge divided by `1 << FINE_BITS`. The lower edge stands for all values of its bin, so no
//! value is reported too large.

use alloc::vec::Vec;

/// Counts by value; each doubling of the value is divided into `1 << FINE_BITS` bins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHistogram<const FINE_BITS: u32> {
    /// The count of each bin, up to the bin of the largest value.
    pub(crate) counts: Vec<u64>,
}

impl<const FINE_BITS: u32> LogHistogram<FINE_BITS> {
    /// Each value below this one has its own bin.
    const EXACT: u64 = 2 << FINE_BITS;

    /// Creates a histogram without counts.
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: Vec::new() }
    }

    /// Returns the index of the bin of a value.
    #[must_use]
    pub fn bin(value: u64) -> usize {
        if value < Self::EXACT {
            return usize::try_from(value).unwrap_or(usize::MAX);
        }
        let shift = value.ilog2() - FINE_BITS;
        let fine = (value >> shift) & ((1 << FINE_BITS) - 1);
        ((shift as usize + 1) << FINE_BITS) + usize::try_from(fine).unwrap_or(0)
    }

    /// Returns the lower edge of a bin; `u64::MAX` for the bin after the last one.
    #[must_use]
    pub const fn edge(bin: usize) -> u64 {
        let bin = bin as u64;
        if bin < Self::EXACT {
            return bin;
        }
        let shift = (bin >> FINE_BITS) - 1;
        let lower = (1 << FINE_BITS) | (bin & ((1 << FINE_BITS) - 1));
        if shift + FINE_BITS as u64 >= 64 {
            u64::MAX
        } else {
            lower << shift
        }
    }

    /// Adds `count` to the bin of `value`.
    pub fn add(&mut self, value: u64, count: u64) {
        if count > 0 {
            self.add_to(Self::bin(value), count);
        }
    }

    pub(crate) fn add_to(&mut self, bin: usize, count: u64) {
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] = self.counts[bin].saturating_add(count);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in other.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.add_to(bin, *count);
        }
    }

    /// Returns the lower edge and the count of each bin that is not empty, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let bins = self.counts.iter().enumerate();
        bins.filter(|(_, count)| **count > 0)
            .map(|(bin, count)| (Self::edge(bin), *count))
    }

    /// Returns the memory allocated on the heap, in bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins_follow_each_other<const FINE_BITS: u32>() {
        let (bin, edge) = (
            LogHistogram::<FINE_BITS>::bin,
            LogHistogram::<FINE_BITS>::edge,
        );
        let last = bin(u64::MAX);
        for at in 0..=last {
            assert_eq!(bin(edge(at)), at);
            assert!(at == 0 || bin(edge(at) - 1) == at - 1);
            assert!(at == last || edge(at + 1) - edge(at) <= (edge(at) >> FINE_BITS).max(1));
        }
        assert_eq!(last + 1, (65 - FINE_BITS as usize) << FINE_BITS);
        assert_eq!(edge(last + 1), u64::MAX);
    }

    #[test]
    fn bins_follow_each_other_and_edges_are_their_own_bins() {
        bins_follow_each_other::<6>();
        bins_follow_each_other::<7>();
    }

    #[test]
    fn counts_are_reported_at_the_lower_edge() {
        let mut histogram = LogHistogram::<7>::new();
        let mut more = histogram.clone();
        histogram.add(1, 2);
        histogram.add(1000, u64::MAX);
        histogram.add(5, 0);
        more.add(1001, 1);
        histogram.merge(&more);
        let all: Vec<(u64, u64)> = histogram.iter().collect();
        assert_eq!(all, [(1, 2), (1000, u64::MAX)]);
    }
}
