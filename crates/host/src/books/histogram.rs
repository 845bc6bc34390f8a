//! Counts by a length of time, in bins whose width grows with it.
//!
//! Invariant: a value below 256 ms has a bin of its own; above, a bin is no wider than 1/128 of its
//! lower edge, which stands for it (a length is never claimed longer than it was).

use engine::log_bins::LogBins;

/// See the module.
type Bins = LogBins<7>;

/// The histogram.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// As long as the longest time needs.
    bins: Vec<u64>,
}

impl Histogram {
    /// Counts so many of this length.
    pub(super) fn add(&mut self, ms: u64, count: u64) {
        let at = Bins::bin(ms);
        debug_assert!(Bins::edge(at) <= ms, "claimed longer than it was");
        if at >= self.bins.len() {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] += count;
        debug_assert!(ms - Bins::edge(at) <= ms / 128);
    }

    /// Lower edges with their counts, ascending, without empty bins.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let bins = self.bins.iter().enumerate();
        bins.filter(|(_, count)| **count > 0)
            .map(|(at, count)| (Bins::edge(at), *count))
    }

    /// Bytes on the heap.
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
