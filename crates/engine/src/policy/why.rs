//! Why a policy orders something: the numbers that decided, and the same as text.
//!
//! Invariant: every order has one, and each number in its text is one that decided.

use super::rate::Rate;
use crate::units::{Bytes, Millis, Pages};
use core::fmt;

/// The numbers by which a policy decided; displayed as text for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// `cold-age` pages out pages.
    ColdAge {
        /// Pages idle for this long are paged out.
        older_than: Millis,
        /// Time between two checks.
        every: Millis,
    },
    /// `cold-age` drops unmapped page cache.
    ColdCache {
        /// Page cache that has been in memory for this long, by an estimate, is dropped.
        older_than: Millis,
        /// Time between two checks.
        every: Millis,
    },
    /// `promotion-rate` pages out pages.
    PromotionRate {
        /// Pages idle for this long are paged out.
        threshold: Millis,
        /// The share of the pages in use that may refault in a minute.
        rate: Rate,
        /// Pages that were in use at the end of the last window: used within `min-age`.
        in_use: Pages,
        /// Pages that may refault in a window: by `rate`, `in_use` and the window's length.
        may_come_back: Pages,
        /// Pages that had been idle for `threshold` or longer and were used again in the last
        /// window.
        came_back: Pages,
    },
    /// `pressure` pages out pages.
    Pressure {
        /// The limit at the end of the last period; the usage was above it.
        limit: Bytes,
        /// How long tasks waited for memory in the last period, in microseconds.
        waited_us: u64,
        /// How long tasks were allowed to wait in the last period, in microseconds. The limit is
        /// raised if they waited for longer, else lowered.
        may_wait_us: u64,
        /// Length of the last period.
        lasted: Millis,
    },
    /// `fit` pages out pages.
    Fit {
        /// The limit; the usage was above it.
        limit: Bytes,
        /// Share of the pages that may refault in a minute; with a lower limit more would have.
        rate: Rate,
        /// Pages that the last window needed.
        last: Pages,
        /// The pages of `last` were used within this time.
        younger_than: Millis,
        /// Pages that refaulted in the last window.
        refaults: Pages,
        /// Length of the last window.
        lasted: Millis,
    },
    /// `write-back` writes swapped-out pages to a disk.
    WriteBack {
        /// Pages idle for this long are written.
        older_than: Millis,
        /// Pages that were already written in this period.
        written: Pages,
        /// Most bytes that may be written in a period.
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
