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
        /// What leaves was not used for so long.
        older_than: Millis,
        /// How often that is asked.
        every: Millis,
    },
    /// `cold-age`, of page cache that nobody maps.
    ColdCache {
        /// What leaves has been there for so long, by an estimate.
        older_than: Millis,
        /// How often that is asked.
        every: Millis,
    },
    /// `promotion-rate`.
    PromotionRate {
        /// What leaves was not used for so long.
        threshold: Millis,
        /// The part of what is in use that may come back in a minute.
        rate: Rate,
        /// Pages that were in use at the end of the last window: used within `min-age`.
        in_use: Pages,
        /// Pages that may come back in a window, by these two.
        may_come_back: Pages,
        /// Pages that had been idle for `threshold` or longer and were used again in the last window.
        came_back: Pages,
    },
    /// `pressure`.
    Pressure {
        /// The limit at the end of the last period; more than that was used.
        limit: Bytes,
        /// How long tasks waited for memory in that period, microseconds.
        waited_us: u64,
        /// How long they might have waited, microseconds: if they waited for longer the limit went up, else down.
        may_wait_us: u64,
        /// How long that period was.
        lasted: Millis,
    },
    /// `fit`.
    Fit {
        /// The limit; more than that was used.
        limit: Bytes,
        /// The part that may come back in a minute: with a lower limit it would have been more.
        rate: Rate,
        /// Pages that the last window needed.
        last: Pages,
        /// Those pages were used within this.
        younger_than: Millis,
        /// Pages that did come back in that window.
        refaults: Pages,
        /// How long that window was.
        lasted: Millis,
    },
    /// `write-back`.
    WriteBack {
        /// What is written was not used for so long.
        older_than: Millis,
        /// Pages that were written before in this period.
        written: Pages,
        /// What may be written in a period.
        most: Bytes,
        /// How long a period is.
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
