//! The share of one processor that scans may take.
//!
//! Invariant: if a scan took `t` of processor time, the next one begins at least `t / share` after
//! the start of that scan, even if a shorter interval is set. An extra scan for reclaim begins at
//! least `2 * t / share` after it.

use std::time::Duration;

/// A whole processor, in hundredths of a percent.
const ALL: u32 = 10_000;

/// A share of one processor, in hundredths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanBudget(u32);

impl Default for ScanBudget {
    /// Returns the default, a tenth of a processor.
    fn default() -> ScanBudget {
        ScanBudget(ALL / 10)
    }
}

impl ScanBudget {
    /// Returns a budget from hundredths of a percent. A value below 1 counts as 1, above 10,000 as
    /// 10,000.
    #[must_use]
    pub fn of_hundredths(hundredths: u16) -> ScanBudget {
        ScanBudget(u32::from(hundredths).clamp(1, ALL))
    }

    /// Returns the minimum time from the start of a scan that took `took` of processor time to the
    /// start of the next scan.
    pub(super) fn interval(self, took: Duration) -> Duration {
        took.saturating_mul(ALL) / self.0
    }

    /// Returns the processor time that reading processes may take in a scan that begins `interval`
    /// after the one before. The other work of the scan takes `beside`. The result is at least a
    /// quarter of the scan's budget.
    pub(super) fn of(self, interval: Duration, beside: Duration) -> Duration {
        let all = interval.saturating_mul(self.0) / ALL;
        all.saturating_sub(beside).max(all / 4)
    }

    /// Like [`ScanBudget::interval`], but until an extra scan for reclaim: twice as long.
    pub(super) fn interval_for_reclaim(self, took: Duration) -> Duration {
        self.interval(took).saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_budget_spaces_scans_further_apart() {
        let took = Duration::from_millis(3);
        let of = |hundredths| ScanBudget::of_hundredths(hundredths).interval(took);
        assert_eq!(of(1000), Duration::from_millis(30));
        assert_eq!(ScanBudget::default(), ScanBudget::of_hundredths(1000));
        assert_eq!([of(10), of(1)].map(|interval| interval.as_secs()), [3, 30]);
        assert_eq!([of(10_000), of(u16::MAX)], [took; 2]);
        assert_eq!(of(0), of(1));
        let second = Duration::from_secs(1);
        assert_eq!(ScanBudget::default().of(second, took), took * 97 / 3);
        assert_eq!(ScanBudget::default().of(second, second), second / 40);
        let all = ScanBudget::of_hundredths(10_000);
        assert_eq!(all.interval_for_reclaim(took), took * 2);
        assert!(all.interval(Duration::MAX) > Duration::from_secs(1 << 40));
    }
}
