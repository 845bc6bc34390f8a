//! A page counter: usage against one hard limit.
//!
//! Usage is what was charged and what was not: pages that were measured and never charged are *unseen*;
//! there are less than none where fewer were measured than charged.

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
    charged: Pages,
    unseen: i64,
    max: Limit,
    watermark: Pages,
    failcnt: u64,
}

impl PageCounter {
    /// Pages charged.
    #[must_use]
    pub const fn charged(&self) -> Pages {
        self.charged
    }

    /// Pages in use, as far as anybody knows.
    #[must_use]
    pub const fn usage(&self) -> Pages {
        Pages(self.charged.0.saturating_add_signed(self.unseen))
    }

    /// Pages in use beyond those charged.
    #[must_use]
    pub const fn unseen(&self) -> i64 {
        self.unseen
    }

    /// Sets them.
    pub const fn set_unseen(&mut self, unseen: i64) {
        self.unseen = unseen;
        self.note_watermark();
    }

    const fn note_watermark(&mut self) {
        if self.usage().0 > self.watermark.0 {
            self.watermark = self.usage();
        }
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
        let by = Pages(self.usage().0.saturating_add(nr.0)).less(self.max.pages());
        if by.0 > 0 {
            self.failcnt += 1;
            return Err(OverLimit { by });
        }
        self.charge(nr);
        Ok(())
    }

    /// Charges `nr` pages, limit or not.
    pub const fn charge(&mut self, nr: Pages) {
        self.charged.0 += nr.0;
        self.note_watermark();
    }

    /// Gives back `nr` pages.
    ///
    /// # Panics
    /// When more is given back than was charged: somebody has counted wrong.
    pub const fn uncharge(&mut self, nr: Pages) {
        assert!(self.charged.0 >= nr.0, "uncharged more than was charged");
        self.charged.0 -= nr.0;
    }
}
