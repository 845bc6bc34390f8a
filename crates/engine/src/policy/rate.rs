//! A rate of refaults: the share of a number of pages that may refault in a minute.
//!
//! Invariant: the number of allowed refaults is rounded down, so that rounding never allows more.

use crate::units::{Millis, Pages};
use core::fmt;

const MINUTE: u128 = 60_000;
const WHOLE: u128 = 1_000_000;

/// A share per minute, in millionths: 2,000 is 0.2%.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// Returns how many of `pages` may refault in `time`.
    #[must_use]
    pub fn of(self, pages: Pages, time: Millis) -> Pages {
        let a_minute = u128::from(pages.0).saturating_mul(self.0.into());
        let many = a_minute.saturating_mul(time.0.into());
        Pages(u64::try_from(many / (WHOLE * MINUTE)).unwrap_or(u64::MAX))
    }
}

/// Writes a percentage such as `0.2%`, with at most four decimals, rounded down.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        let digits = alloc::format!("{part:04}");
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_rate_is_of_pages_and_time() {
        let rate = Rate(2_000);
        assert_eq!(rate.of(Pages(65_536), Millis(60_000)), Pages(131));
        assert_eq!(rate.of(Pages(65_536), Millis(30_000)), Pages(65));
        assert_eq!(rate.of(Pages(u64::MAX), Millis(u64::MAX)), Pages(u64::MAX));
        let texts = [2_000, 10_000, 125, 1].map(|rate| Rate(rate).to_string());
        assert_eq!(texts, ["0.2%", "1%", "0.0125%", "0.0001%"]);
    }
}
