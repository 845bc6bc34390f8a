//! A page counter: the usage of memory or swap against one hard limit.
//!
//! Usage is the number of charged pages plus that of *unseen* pages: pages that were measured on
//! the host, but never charged here. The number of unseen pages is negative if fewer pages were
//! measured than charged.

use crate::units::{Limit, Pages};

/// Error: a charge would have exceeded the limit; nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Pages by which the limit would have been exceeded.
    pub by: Pages,
}

/// Usage, hard limit, largest usage so far, and number of refused charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounter {
    charged: Pages,
    unseen: i64,
    max: Limit,
    watermark: Pages,
    failcnt: u64,
}

impl PageCounter {
    /// Returns the pages charged.
    #[must_use]
    pub const fn charged(&self) -> Pages {
        self.charged
    }

    /// Returns the pages in use: charged plus unseen ones.
    #[must_use]
    pub const fn usage(&self) -> Pages {
        Pages(self.charged.0.saturating_add_signed(self.unseen))
    }

    /// Returns the number of unseen pages: pages in use minus charged pages.
    #[must_use]
    pub const fn unseen(&self) -> i64 {
        self.unseen
    }

    /// Sets the number of unseen pages: pages in use minus charged pages.
    pub const fn set_unseen(&mut self, unseen: i64) {
        self.unseen = unseen;
        self.note_watermark();
    }

    const fn note_watermark(&mut self) {
        if self.usage().0 > self.watermark.0 {
            self.watermark = self.usage();
        }
    }

    /// The hard limit of the usage.
    #[must_use]
    pub const fn max(&self) -> Limit {
        self.max
    }

    /// Returns the largest usage so far, in pages.
    #[must_use]
    pub const fn watermark(&self) -> Pages {
        self.watermark
    }

    /// Returns the number of charges refused so far.
    #[must_use]
    pub const fn failcnt(&self) -> u64 {
        self.failcnt
    }

    /// Sets the hard limit; usage may already be above the new limit.
    pub const fn set_max(&mut self, max: Limit) {
        self.max = max;
    }

    /// Charges `nr` pages if the limit allows it.
    ///
    /// # Errors
    /// [`OverLimit`] if the limit would be exceeded.
    pub const fn try_charge(&mut self, nr: Pages) -> Result<(), OverLimit> {
        let by = Pages(self.usage().0.saturating_add(nr.0)).less(self.max.pages());
        if by.0 > 0 {
            self.failcnt += 1;
            return Err(OverLimit { by });
        }
        self.charge(nr);
        Ok(())
    }

    /// Charges `nr` pages, even if usage then exceeds the limit.
    pub const fn charge(&mut self, nr: Pages) {
        self.charged.0 += nr.0;
        self.note_watermark();
    }

    /// Uncharges `nr` pages.
    ///
    /// # Panics
    /// When more pages are uncharged than were charged: the caller's count is wrong.
    pub const fn uncharge(&mut self, nr: Pages) {
        assert!(self.charged.0 >= nr.0, "uncharged more than was charged");
        self.charged.0 -= nr.0;
    }
}
