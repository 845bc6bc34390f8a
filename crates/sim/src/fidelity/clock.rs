//! Computes the simulated time of a run from the bursts at which the guest's kernel flushed its
//! statistics: two seconds pass from one flush to the next.
//!
//! Invariants: time does not go back. It reaches each multiple of [`FLUSH_TIME`] at the burst at
//! which a flush was seen; after the last flush it stays below the next multiple.

use ::engine::Millis;
use ::engine::rstat::FLUSH_TIME;

/// Converts numbers of bursts to simulated time.
pub(super) struct Clock {
    /// Number of bursts before each flush, ascending.
    flushes: Vec<u64>,
}

impl Clock {
    pub(super) const fn new(flushes: Vec<u64>) -> Self {
        Self { flushes }
    }

    /// Returns the time after this number of bursts.
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
    fn each_flush_is_at_a_multiple_of_two_seconds() {
        let clock = Clock::new(vec![10, 30, 30, 31]);
        let times = [0, 5, 9, 10, 20, 29, 30, 31, 32, 9999].map(|n| clock.now(n).0);
        assert_eq!(
            times,
            [0, 1000, 1800, 2000, 3000, 3900, 6000, 8000, 8001, 9999]
        );
    }

    #[test]
    fn without_flushes_time_stays_below_the_first() {
        let clock = Clock::new(vec![]);
        assert_eq!([0, 7, 5000].map(|n| clock.now(n).0), [0, 7, 1999]);
    }
}
