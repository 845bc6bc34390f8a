//! Counts by a length of time, in bins whose width grows with it.
//!
//! Invariant: a value below 256 ms has a bin of its own; above, a bin is no wider than 1/128 of its
//! lower edge, which stands for it (a length is never claimed longer than it was).

/// Bins that each doubling is divided into, as a power of two.
const FINE_BITS: u32 = 7;
const EXACT: u64 = 2 << FINE_BITS;

/// The histogram.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// As long as the longest time needs.
    bins: Vec<u64>,
}

/// The bin of a length.
fn bin(ms: u64) -> usize {
    if ms < EXACT {
        return usize::try_from(ms).unwrap_or(usize::MAX);
    }
    let shift = ms.ilog2() - FINE_BITS;
    let fine = (ms >> shift) & ((1 << FINE_BITS) - 1);
    ((shift + 1) << FINE_BITS) as usize + usize::try_from(fine).unwrap_or(usize::MAX)
}

/// The lower edge of a bin, milliseconds.
fn edge(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < EXACT {
        return bin;
    }
    let shift = (bin >> FINE_BITS) - 1;
    ((1 << FINE_BITS) | (bin & ((1 << FINE_BITS) - 1))) << shift
}

impl Histogram {
    /// Counts so many of this length.
    pub(super) fn add(&mut self, ms: u64, count: u64) {
        let at = bin(ms);
        debug_assert!(edge(at) <= ms, "claimed longer than it was");
        if at >= self.bins.len() {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] += count;
        debug_assert!(ms - edge(at) <= ms / 128);
    }

    /// Lower edges with their counts, ascending, without empty bins.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let bins = self.bins.iter().enumerate();
        bins.filter(|(_, count)| **count > 0)
            .map(|(at, count)| (edge(at), *count))
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
        assert!((0..7424).all(|at| bin(edge(at)) == at));
        assert!((1..7424).all(|at| edge(at - 1) < edge(at) && bin(edge(at) - 1) == at - 1));
        assert_eq!(bin(u64::MAX), 7423);
    }
}
