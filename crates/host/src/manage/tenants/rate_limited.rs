//! What happens many times a second, and is logged at most at intervals.
//!
//! Invariant: each page is logged once; pages not logged yet are part of the next log line.

use std::time::Duration;

use super::super::moment::Moment;

/// Minimum time between two log lines with counts of pages.
const APART: Duration = Duration::from_secs(10);

/// The time of the last log line about one condition; `None` before the first line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateLimit(Option<Moment>);

impl RateLimit {
    /// Whether the last log line is at least `apart` old, or there was none. If so, the caller logs
    /// now, and `now` is recorded as the time of the last line.
    pub(super) fn takes(&mut self, now: Moment, apart: Duration) -> bool {
        let is_due = self.0.is_none_or(|logged| now.since(logged) >= apart);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Number of pages reclaimed for one reason and not logged yet, and when they were last logged.
#[derive(Debug, Default)]
pub(super) struct RateLimitedCount {
    /// Number of pages not logged yet.
    pages: u64,
    limit: RateLimit,
}

impl RateLimitedCount {
    /// Adds pages. Returns the number to log now; `None` if it is not time to log.
    pub(super) fn add(&mut self, now: Moment, pages: u64) -> Option<u64> {
        self.pages += pages;
        let is_logged = self.pages > 0 && self.limit.takes(now, APART);
        is_logged.then(|| std::mem::take(&mut self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::moment::at_ms;
    use super::*;

    /// Regression: one tenant that needed more than its memory.max wrote 162 log lines a second.
    #[test]
    fn frequent_counts_are_logged_rarely_and_completely() {
        let mut seldom = RateLimitedCount::default();
        let mut at = |ms, pages| seldom.add(at_ms(ms), pages);
        // Until there is a page, no time counts as that of a log line.
        assert_eq!([at(0, 0), at(5, 3), at(9, 4)], [None, Some(3), None]);
        assert_eq!([at(10_004, 5), at(10_005, 0)], [None, Some(9)]);
        assert_eq!(at(10_006, 0), None);
        let lines = (20_005..30_005).filter(|ms| at(*ms, 1).is_some());
        assert_eq!(lines.count(), 1);
    }

    #[test]
    fn a_condition_that_lasts_is_logged_again_after_a_while() {
        let (mut full, minute) = (RateLimit::default(), Duration::from_secs(60));
        let logged = [0, 1, 59_999, 60_000, 119_999, 500_000];
        let logged = logged.map(|ms| full.takes(at_ms(ms), minute));
        assert_eq!(logged, [true, false, false, true, false, true]);
    }
}
