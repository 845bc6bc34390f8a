//! Bins for lengths of time whose width grows with the length.
//!
//! Invariant: every length has one bin, in order, and is its lower edge's bin if it is one. Up to `2 << FINE_BITS` each millisecond
//! has its own; above, a bin is no wider than `1 / (1 << FINE_BITS)` of its lower edge, which stands for it.

/// Each doubling is divided into `1 << FINE_BITS` bins.
#[derive(Clone, Copy, Debug)]
pub struct LogBins<const FINE_BITS: u32>;

impl<const FINE_BITS: u32> LogBins<FINE_BITS> {
    /// Below this, each millisecond has a bin.
    const EXACT: u64 = 2 << FINE_BITS;

    /// The bin of a length, milliseconds.
    #[must_use]
    pub fn bin(ms: u64) -> usize {
        if ms < Self::EXACT {
            return usize::try_from(ms).unwrap_or(usize::MAX);
        }
        let shift = ms.ilog2() - FINE_BITS;
        let fine = (ms >> shift) & ((1 << FINE_BITS) - 1);
        ((shift as usize + 1) << FINE_BITS) + usize::try_from(fine).unwrap_or(0)
    }

    /// The lower edge of a bin, milliseconds; of the bin after the last one, beyond all lengths.
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
}
