//! Neighbouring pages of an address space.
//!
//! Invariant: no two pages of a recording have the same number, whatever address space they are of.

/// Up to 64 neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// `space << 45 | page` of the first one, a multiple of 64.
    pub first: u64,
    /// Which of them.
    pub bits: u64,
}

impl Unit {
    /// The pages, `space << 45 | page` each, ascending.
    pub fn pages(self) -> impl Iterator<Item = u64> {
        let mut bits = self.bits;
        std::iter::from_fn(move || {
            let at = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(self.first + u64::from(at))
        })
    }
}
