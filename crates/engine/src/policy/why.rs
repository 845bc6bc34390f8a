//! The reason of a policy's order: the numbers that decided, and their text for users.
//!
//! Invariant: every order has a reason, and every number in its text took part in the decision.

use super::rate::Rate;
use crate::units::{Bytes, Millis, Pages};
use core::fmt;

/// The numbers by which a policy decided; displayed as text for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An order of `cold-age` to page out pages.
    ColdAge {
        /// Pages idle for this long are paged out.
        older_than: Millis,
        /// Time between two checks.
        every: Millis,
    },
    /// An order of `cold-age` to drop unmapped page cache.
    ColdCache {
        /// Page cache that has been in memory for this long, by an estimate, is dropped.
        older_than: Millis,
        /// Time between two checks.
        every: Millis,
    },
    /// An order of `promotion-rate` to page out pages.
    PromotionRate {
        /// Pages idle for this long are paged out.
        threshold: Millis,
        /// The share of the pages in use that may refault in a minute.
        rate: Rate,
        /// Number of pages in use at the end of the last window: used within `min-age`.
        in_use: Pages,
        /// Number of pages that may refault in a window, by `rate`, `in_use` and the window's
        /// length.
        may_come_back: Pages,
        /// Number of pages that were used again in the last window and had been idle for
        /// `threshold` or longer.
        came_back: Pages,
    },
    /// An order of `pressure` to page out pages.
    Pressure {
        /// The limit at the end of the last period; the usage was above it.
        limit: Bytes,
        /// How long tasks waited for memory in the last period, in microseconds.
        waited_us: u64,
        /// How long tasks were allowed to wait in the last period, in microseconds. The limit is
        /// raised if tasks waited longer, else lowered.
        may_wait_us: u64,
        /// Length of the last period.
        lasted: Millis,
    },
    /// An order of `fit` to page out pages.
    Fit {
        /// The limit; the usage was above it.
        limit: Bytes,
        /// Share of the pages that may refault in a minute; with a lower limit more would have
        /// refaulted.
        rate: Rate,
        /// Number of pages that the last window needed.
        last: Pages,
        /// The pages of `last` were used within this time.
        younger_than: Millis,
        /// Number of pages that refaulted in the last window.
        refaults: Pages,
        /// Length of the last window.
        lasted: Millis,
    },
    /// A choice of swapped-out pages that are written to a disk.
    WriteBack {
        /// Pages idle for this long are written.
        older_than: Millis,
        /// Number of pages already written in this period.
        written: Pages,
        /// Maximum number of bytes that may be written in a period.
        most: Bytes,
        /// Length of a period.
        per: Millis,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ColdAge { older_than, every } => {
                write!(f, "not accessed for {older_than} (cold-age: every {every})")
            }
            Self::ColdCache { older_than, every } => {
                write!(f, "there for {older_than} (cold-age: every {every})")
            }
            Self::PromotionRate {
                threshold,
                rate,
                in_use,
                may_come_back,
                came_back,
            } => write!(
                f,
                "not accessed for {threshold} (promotion-rate: {} pages, {rate} a minute of {} in use, may come \
                 back; of what was so old {} were used in the last window)",
                may_come_back.0,
                in_use.bytes(),
                came_back.0
            ),
            Self::Pressure {
                limit,
                waited_us,
                may_wait_us,
                lasted,
            } => write!(
                f,
                "over {limit} (pressure: in {lasted} tasks waited {} ms for memory, and may wait {} ms)",
                Tenths(waited_us),
                Tenths(may_wait_us)
            ),
            Self::Fit {
                limit,
                rate,
                last,
                younger_than,
                refaults,
                lasted,
            } => write!(
                f,
                "over {limit} (fit: with less, more than {rate} a minute would come back; the last {lasted} needed {}, \
                 used within {younger_than}, and {} pages came back)",
                last.bytes(),
                refaults.0
            ),
            Self::WriteBack {
                older_than,
                written,
                most,
                per,
            } => write!(
                f,
                "not accessed for {older_than} (write-back: {} of {most} each {per} were written before)",
                written.bytes()
            ),
        }
    }
}

/// Microseconds, displayed as milliseconds with one decimal.
struct Tenths(u64);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn in_words() {
        let why = Why::PromotionRate {
            threshold: Millis(184_000),
            rate: Rate(2_000),
            in_use: Pages(65_536),
            may_come_back: Pages(131),
            came_back: Pages(118),
        };
        assert_eq!(
            why.to_string(),
            "not accessed for 184s (promotion-rate: 131 pages, 0.2% a minute of 256 MiB in use, may come back; of \
             what was so old 118 were used in the last window)"
        );
        let why = Why::Pressure {
            limit: Bytes(200 << 20),
            waited_us: 4_250,
            may_wait_us: 10_000,
            lasted: Millis(6_000),
        };
        assert_eq!(
            why.to_string(),
            "over 200 MiB (pressure: in 6s tasks waited 4.2 ms for memory, and may wait 10.0 ms)"
        );
    }
}
