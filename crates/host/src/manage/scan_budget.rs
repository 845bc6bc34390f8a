//! The share of one processor that scans may take, and so when the next scan begins.
//!
//! Invariant: if a scan took `t` of processor time, the next one begins at least `t / share` after
//! the start of that scan, even if a shorter interval is set. An extra scan for reclaim begins at
//! least `2 * t / share` after its end, so such scans take half of the share at most.

use std::time::Duration;

use engine::machine::HOST_SCANS_APART;

use super::moment::Moment;

/// A whole processor, in hundredths of a percent.
const ALL: u32 = 10_000;
/// Minimum time between two scans when reclaim needs fresh ages before the interval is over.
const EXTRA_APART: Duration = Duration::from_millis(HOST_SCANS_APART.0);
/// Minimum time between two scans of a target that has just executed another program.
const YOUNG: Duration = Duration::from_secs(1);

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

    /// Returns when the next regular scan begins. The last scan began at `begun` and took `took` of
    /// processor time. `wanted` is the time between the two scans if scans cost nothing.
    pub(super) fn next_scan(self, begun: Moment, wanted: Duration, took: Duration) -> Moment {
        begun.after(wanted.max(self.interval(took)))
    }

    /// Returns the time until an extra scan for reclaim may begin, `age` after the end of a scan
    /// that took `took` of processor time.
    pub(super) fn until_extra_scan(self, age: Duration, took: Duration) -> Duration {
        let interval = self.interval(took).saturating_mul(2);
        interval.max(EXTRA_APART).saturating_sub(age)
    }
}

/// Returns the time between two scans of a target whose program began `since` ago: at most that
/// time, and at least [`YOUNG`]. A report in the target's first seconds must not show the state at
/// the exec.
pub(super) fn while_young(wanted: Duration, since: Duration) -> Duration {
    wanted.min(since.max(YOUNG))
}

#[cfg(test)]
mod tests {
    use super::super::moment::at_ms;
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
        assert!(all.interval(Duration::MAX) > Duration::from_secs(1 << 40));
    }

    #[test]
    fn an_expensive_scan_delays_the_next_one() {
        let (budget, begun) = (ScanBudget::default(), at_ms(1000));
        let next = |took| budget.next_scan(begun, Duration::from_secs(1), took);
        assert_eq!(next(Duration::from_millis(99)), at_ms(2000));
        assert_eq!(next(Duration::from_millis(300)), at_ms(4000));
    }

    #[test]
    fn extra_scans_take_half_of_the_budget() {
        let (budget, ms) = (ScanBudget::default(), Duration::from_millis);
        assert_eq!(budget.until_extra_scan(ms(0), ms(0)), EXTRA_APART);
        assert_eq!(budget.until_extra_scan(ms(0), ms(300)), ms(6000));
        assert_eq!(budget.until_extra_scan(ms(5999), ms(300)), ms(1));
        assert_eq!(budget.until_extra_scan(ms(9999), ms(300)), ms(0));
    }

    /// Reports showed pagetide itself, which the process was until it executed the program.
    #[test]
    fn a_young_program_is_scanned_more_often() {
        let (wanted, secs) = (Duration::from_secs(10), Duration::from_secs);
        let of = |since| while_young(wanted, secs(since)).as_secs();
        assert_eq!([of(0), of(4), of(10), of(3600)], [1, 4, 10, 10]);
        assert_eq!(
            while_young(Duration::from_millis(50), secs(0)).as_millis(),
            50
        );
    }
}
