//! Histogram of durations; the width of a bin grows with the duration.
//!
//! Invariant: each millisecond below 256 has a bin of its own. Above, a bin is no wider than 1/128
//! of its lower edge. A bin's lower edge is reported, so no duration is reported longer than it
//! was.

use engine::log_bins::LogBins;

/// Bins of the histogram.
type Bins = LogBins<7>;

/// Counts by duration in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// Count of each bin, up to the bin of the longest duration so far.
    bins: Vec<u64>,
}

impl Histogram {
    /// Adds a count for this duration.
    pub(super) fn add(&mut self, ms: u64, count: u64) {
        let at = Bins::bin(ms);
        debug_assert!(Bins::edge(at) <= ms, "claimed longer than it was");
        if at >= self.bins.len() {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] += count;
        debug_assert!(ms - Bins::edge(at) <= ms / 128);
    }

    /// Returns the lower edge (milliseconds) and the count of each bin that is not empty, in
    /// ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let bins = self.bins.iter().enumerate();
        bins.filter(|(_, count)| **count > 0)
            .map(|(at, count)| (Bins::edge(at), *count))
    }

    /// Returns the number of bytes that this has on the heap.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.bins.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_edges_are_their_own_bins() {
        assert!((0..7424).all(|at| Bins::bin(Bins::edge(at)) == at));
        assert!((1..7424).all(
            |at| Bins::edge(at - 1) < Bins::edge(at) && Bins::bin(Bins::edge(at) - 1) == at - 1
        ));
        assert_eq!(Bins::bin(u64::MAX), 7423);
    }
}
