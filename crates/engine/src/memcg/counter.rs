//! A page counter: usage against one hard limit.

use crate::units::{Limit, Pages};

/// A charge would have gone over the limit; nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// By how much.
    pub by: Pages,
}

/// Usage, its limit, its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounter {
    usage: Pages,
    max: Limit,
    watermark: Pages,
    failcnt: u64,
}

impl PageCounter {
    /// Pages charged.
    #[must_use]
    pub const fn usage(&self) -> Pages {
        self.usage
    }

    /// The limit.
    #[must_use]
    pub const fn max(&self) -> Limit {
        self.max
    }

    /// The largest usage so far.
    #[must_use]
    pub const fn watermark(&self) -> Pages {
        self.watermark
    }

    /// Charges refused so far.
    #[must_use]
    pub const fn failcnt(&self) -> u64 {
        self.failcnt
    }

    /// Sets the limit; usage may be above it from now on.
    pub const fn set_max(&mut self, max: Limit) {
        self.max = max;
    }

    /// Charges `nr` pages if the limit allows.
    ///
    /// # Errors
    /// [`OverLimit`] if not.
    pub const fn try_charge(&mut self, nr: Pages) -> Result<(), OverLimit> {
        let by = Pages(self.usage.0.saturating_add(nr.0)).less(self.max.pages());
        if by.0 > 0 {
            self.failcnt += 1;
            return Err(OverLimit { by });
        }
        self.charge(nr);
        Ok(())
    }

    /// Charges `nr` pages, limit or not.
    pub const fn charge(&mut self, nr: Pages) {
        self.usage.0 += nr.0;
        if self.usage.0 > self.watermark.0 {
            self.watermark = self.usage;
        }
    }

    /// Gives back `nr` pages.
    ///
    /// # Panics
    /// When more is given back than was charged: somebody's books are wrong.
    pub const fn uncharge(&mut self, nr: Pages) {
        assert!(self.usage.0 >= nr.0, "uncharged more than was charged");
        self.usage.0 -= nr.0;
    }
}
