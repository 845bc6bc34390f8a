//! Pace: decides at which scan a period of a policy ends: at the one nearest to the period's
//! nominal end.
//!
//! Invariant: the time of the next scan is unknown; it is assumed to be as long after this scan as
//! this scan is after the last. Scans rarely happen exactly at the end of a period. If they happen
//! slightly less than a period apart, each must still end a period.

use crate::units::Millis;

/// The time of the last scan, and the time between the last two scans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time of the last scan; `None` before the first.
    last: Option<Millis>,
    apart: Millis,
}

impl Pace {
    /// Creates a pace before the first scan.
    pub(super) const fn new() -> Self {
        Self {
            last: None,
            apart: Millis(0),
        }
    }

    /// Creates a pace as if the last scan had been at `now`.
    pub(super) const fn since(now: Millis) -> Self {
        Self {
            last: Some(now),
            apart: Millis(0),
        }
    }

    /// Notes a scan. Must be called once for each scan, before [`Self::is_over`].
    pub(super) fn note(&mut self, now: Millis) {
        self.apart = self.last.map_or(Millis(0), |last| now.since(last));
        self.last = Some(now);
    }

    /// Whether a period of nominal length `period`, which has lasted for `lasted`, ends at this
    /// scan: this scan is nearer to the nominal end than the next scan will be.
    pub(super) const fn is_over(&self, lasted: Millis, period: Millis) -> bool {
        lasted.0.saturating_add(self.apart.0 / 2) >= period.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Returns the times of the scans that end a period; all times are in milliseconds. The first
    /// period begins at 0, each other period when the previous one ends.
    fn ends(scans: &[u64], period: u64) -> Vec<u64> {
        let (mut pace, mut since, mut ends) = (Pace::since(Millis(0)), 0, Vec::new());
        for &at in scans {
            pace.note(Millis(at));
            if pace.is_over(Millis(at - since), Millis(period)) {
                since = at;
                ends.push(at);
            }
        }
        ends
    }

    #[test]
    fn a_scan_that_is_slightly_early_ends_a_period() {
        let scans = [5_975, 11_950, 17_925];
        assert_eq!(ends(&scans, 6_000), scans);
        // Six scans are a window of a minute; the policy does not wait for a seventh.
        let scans: Vec<u64> = (1..=12).map(|n| n * 9_975).collect();
        assert_eq!(ends(&scans, 60_000), [59_850, 119_700]);
    }

    #[test]
    fn the_nearer_of_two_scans_ends_a_period() {
        assert_eq!(ends(&[4_000, 8_000, 12_000], 6_500), [8_000]);
        assert_eq!(ends(&[4_400, 8_800], 6_000), [4_400, 8_800]);
        assert_eq!(ends(&[1_000, 2_000, 2_400, 3_400], 3_000), [3_400]);
        // If scans are farther apart than a period, each of them ends a period.
        assert_eq!(ends(&[20_000, 40_000], 6_000), [20_000, 40_000]);
    }
}
