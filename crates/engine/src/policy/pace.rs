//! When a period of a policy ends: at the scan nearest to its nominal end.
//!
//! Invariant: future scans are unknown; the next one is assumed to come as long after this one as
//! this one came after the last. Scans rarely come exactly at the end of a period. They may come
//! slightly less than a period apart, and then each must still end a period.

use crate::units::Millis;

/// The time of the last scan, and the time between the last two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time of the last scan; `None` before the first.
    last: Option<Millis>,
    apart: Millis,
}

impl Pace {
    /// Creates a pace for scans that have not begun.
    pub(super) const fn new() -> Self {
        Self {
            last: None,
            apart: Millis(0),
        }
    }

    /// Creates a pace as if a scan were made now.
    pub(super) const fn since(now: Millis) -> Self {
        Self {
            last: Some(now),
            apart: Millis(0),
        }
    }

    /// Notes a scan; to be called once for each scan, before [`Self::is_over`].
    pub(super) fn note(&mut self, now: Millis) {
        self.apart = self.last.map_or(Millis(0), |last| now.since(last));
        self.last = Some(now);
    }

    /// Whether a period of nominal length `period`, which has lasted for `lasted`, ends at this
    /// scan: it is nearer to its nominal end now than it will be at the next scan.
    pub(super) const fn is_over(&self, lasted: Millis, period: Millis) -> bool {
        lasted.0.saturating_add(self.apart.0 / 2) >= period.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Returns the times, in milliseconds, of the scans that end a period. The first period begins
    /// at 0, each other one when the one before ends.
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
        // Six scans make a window of a minute; the policy does not wait for a seventh.
        let scans: Vec<u64> = (1..=12).map(|n| n * 9_975).collect();
        assert_eq!(ends(&scans, 60_000), [59_850, 119_700]);
    }

    #[test]
    fn the_nearer_of_two_scans_ends_a_period() {
        assert_eq!(ends(&[4_000, 8_000, 12_000], 6_500), [8_000]);
        assert_eq!(ends(&[4_400, 8_800], 6_000), [4_400, 8_800]);
        assert_eq!(ends(&[1_000, 2_000, 2_400, 3_400], 3_000), [3_400]);
        // Scans that are farther apart than a period each end one.
        assert_eq!(ends(&[20_000, 40_000], 6_000), [20_000, 40_000]);
    }
}
