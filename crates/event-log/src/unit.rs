//! Up to 64 consecutive pages as one value.
//!
//! Invariant: the number of a page is unique in the recording, also across address spaces.

/// Up to 64 consecutive pages of one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// Number of the page of bit 0: `space << 45 | page`, a multiple of 64.
    pub first: u64,
    /// Bit `n` is set if page `first + n` belongs to the unit.
    pub bits: u64,
}

impl Unit {
    /// Returns the numbers of the unit's pages (`space << 45 | page`), ascending.
    pub fn pages(self) -> impl Iterator<Item = u64> {
        let mut bits = self.bits;
        std::iter::from_fn(move || {
            let at = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(self.first + u64::from(at))
        })
    }
}
