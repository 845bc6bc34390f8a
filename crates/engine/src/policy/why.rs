//! Why a policy orders something: the numbers that decided, and the same in words.
//!
//! Invariant: every order has one, and each number in its words is one that decided.

use super::rate::Rate;
use crate::units::{Bytes, Millis, Pages};
use core::fmt;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// `cold-age`.
    ColdAge {
        /// It was not used for so long,
        older_than: Millis,
        /// which is asked so often.
        every: Millis,
    },
    /// `promotion-rate`.
    PromotionRate {
        /// It was not used for so long,
        threshold: Millis,
        /// because so much of
        rate: Rate,
        /// these pages, used within `min-age`,
        in_use: Pages,
        /// which is so many in a window, may come back,
        may_come_back: Pages,
        /// and so many of what was as old were used in the last one.
        came_back: Pages,
    },
    /// `pressure`.
    Pressure {
        /// More than this was used, which was moved
        limit: Bytes,
        /// because tasks waited so many microseconds for memory
        waited_us: u64,
        /// where they might have waited so many
        may_wait_us: u64,
        /// in this time.
        lasted: Millis,
    },
    /// `fit`.
    Fit {
        /// More than this was used; with less,
        limit: Bytes,
        /// more than this would have come back.
        rate: Rate,
        /// The last window needed so many pages,
        last: Pages,
        /// those that were used within this,
        younger_than: Millis,
        /// and so many did come back
        refaults: Pages,
        /// in this time.
        lasted: Millis,
    },
    /// `write-back`.
    WriteBack {
        /// It was not used for so long,
        older_than: Millis,
        /// and so many pages were written before in this period
        written: Pages,
        /// where so much may be
        most: Bytes,
        /// in one of this length.
        per: Millis,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ColdAge { older_than, every } => {
                write!(f, "not accessed for {older_than} (cold-age: every {every})")
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

/// Microseconds as milliseconds with a tenth.
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
