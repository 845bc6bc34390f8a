//! Counts of pages that change many times a second, and are logged at most every ten seconds.
//!
//! Invariant: each page is logged once; pages not logged yet are part of the next log line.

use std::time::{Duration, Instant};

/// Minimum time between two log lines.
const APART: Duration = Duration::from_secs(10);

/// Number of pages reclaimed for one reason and not logged yet, and when they were last logged.
#[derive(Debug, Default)]
pub(super) struct RateLimitedCount {
    /// Number of pages not logged yet.
    pages: u64,
    /// When pages were last logged; `None` if never.
    reported: Option<Instant>,
}

impl RateLimitedCount {
    /// Adds pages. Returns the number to log now; `None` if it is not time to log. Otherwise one
    /// tenant that needs more than its memory.max would write 162 log lines a second.
    pub(super) fn add(&mut self, pages: u64) -> Option<u64> {
        self.pages += pages;
        let is_due = self
            .reported
            .is_none_or(|reported| reported.elapsed() >= APART);
        if !is_due || self.pages == 0 {
            return None;
        }
        self.reported = Some(Instant::now());
        Some(std::mem::take(&mut self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_counts_are_logged_rarely_and_completely() {
        let mut seldom = RateLimitedCount::default();
        assert_eq!(
            [0, 3, 4, 5].map(|pages| seldom.add(pages)),
            [None, Some(3), None, None]
        );
        seldom.reported = Instant::now().checked_sub(APART);
        assert_eq!([0, 0].map(|pages| seldom.add(pages)), [Some(9), None]);
    }
}
