//! The time of a run, by the guest's flushes of statistics: two seconds from one to the next.
//!
//! Invariants: time does not go back; it is a multiple of [`FLUSH_TIME`] first where a flush was seen; after the last
//! flush that was seen none is due.

use ::engine::Millis;
use ::engine::rstat::FLUSH_TIME;

/// The clock.
pub(super) struct Clock {
    /// Bursts, rising.
    flushes: Vec<u64>,
}

impl Clock {
    pub(super) const fn new(flushes: Vec<u64>) -> Self {
        Self { flushes }
    }

    /// The time after so many bursts.
    pub(super) fn now(&self, bursts: u64) -> Millis {
        let before = self.flushes.partition_point(|flush| *flush <= bursts);
        let from = before.checked_sub(1).map_or(0, |at| self.flushes[at]);
        let since = bursts - from;
        let part = self.flushes.get(before).map_or_else(
            || since.min(FLUSH_TIME.0 - 1),
            |to| FLUSH_TIME.0 * since / (to - from),
        );
        Millis(FLUSH_TIME.0 * before as u64 + part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seconds_are_over_where_a_flush_was_seen() {
        let clock = Clock::new(vec![10, 30, 30, 31]);
        let times = [0, 5, 9, 10, 20, 29, 30, 31, 32, 9999].map(|n| clock.now(n).0);
        assert_eq!(
            times,
            [0, 1000, 1800, 2000, 3000, 3900, 6000, 8000, 8001, 9999]
        );
    }

    #[test]
    fn without_flushes_none_is_due() {
        let clock = Clock::new(vec![]);
        assert_eq!([0, 7, 5000].map(|n| clock.now(n).0), [0, 7, 1999]);
    }
}
