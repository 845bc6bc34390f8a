//! Bins for durations; a bin's width grows with the duration.
//!
//! Invariant: every duration has one bin, bins are in order, and a lower edge is in its own bin.
//! Durations below `2 << FINE_BITS` milliseconds have a bin for each millisecond; above, a bin's
//! width is at most its lower edge divided by `1 << FINE_BITS`. The lower edge stands for the bin.

/// Duration bins; each doubling of the duration is divided into `1 << FINE_BITS` bins.
#[derive(Clone, Copy, Debug)]
pub struct LogBins<const FINE_BITS: u32>;

impl<const FINE_BITS: u32> LogBins<FINE_BITS> {
    /// Durations below this many milliseconds have a bin for each millisecond.
    const EXACT: u64 = 2 << FINE_BITS;

    /// Returns the bin of a duration of `ms` milliseconds.
    #[must_use]
    pub fn bin(ms: u64) -> usize {
        if ms < Self::EXACT {
            return usize::try_from(ms).unwrap_or(usize::MAX);
        }
        let shift = ms.ilog2() - FINE_BITS;
        let fine = (ms >> shift) & ((1 << FINE_BITS) - 1);
        ((shift as usize + 1) << FINE_BITS) + usize::try_from(fine).unwrap_or(0)
    }

    /// Returns the lower edge of a bin, in milliseconds; `u64::MAX` for the bin after the last one.
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
