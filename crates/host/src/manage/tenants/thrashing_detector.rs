//! Detects that a program thrashes: it needs more memory than its limit allows, and refaults pages
//! soon after they were paged out.
//!
//! Invariant: the measure is the number of faults that had to read, in the time between two scans,
//! compared to the usage. If the kernel enforces the limit, there is no proactive reclaim from a
//! thrashing program for a while.
//!
//! Why: MADV_PAGEOUT makes shadow entries that belong to the whole machine, not to the cgroup
//! (Linux 6.18: `reclaim_pages` names no group). On a host with much page cache every such page
//! therefore returns as active, and pushes pages in use off the cgroup's lists. Also, each scan
//! clears the bits by which the kernel knows the pages in use. (docs/benchmarks.md, Beside the
//! kernel.)

use std::time::{Duration, Instant};

use engine::Pages;

/// A program thrashes if it has more than `usage / PART` faults a second that had to read; `usage`
/// is in pages.
const PART: u64 = 5;
/// Minimum usage, in pages (128 MiB), at which only the kernel reclaims from a thrashing program.
/// The lists of a smaller program run empty before the kernel has summed its counters, and the
/// kernel kills the program ([`crate::hard_limit`], fresh counters).
const PAGES_MIN: Pages = Pages(128 << 8);
/// Minimum time between two fault-rate samples of a tenant that is not scanned on its own.
const APART: Duration = Duration::from_secs(1);
/// First, then maximum pause of proactive reclaim; it doubles while thrashing lasts.
const LEFT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));

/// Samples how often a program's faults had to read, and derives the pauses of proactive reclaim.
#[derive(Debug)]
pub(super) struct ThrashingDetector {
    /// Time of the last sample; then the total number of faults that had to read until then.
    at: Instant,
    faults: u64,
    /// End of the present pause of proactive reclaim, `None` if there is none; then the length of
    /// the next.
    until: Option<Instant>,
    left: Duration,
}

impl ThrashingDetector {
    /// Returns the state of a program of which `faults` faults had to read until `now`.
    pub(super) fn since(now: Instant, faults: u64) -> ThrashingDetector {
        ThrashingDetector {
            at: now,
            faults,
            until: None,
            left: LEFT.0,
        }
    }

    /// Whether it is time for another sample.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= APART
    }

    /// Adds a sample after a scan. `faults`: total number of the program's faults that had to read
    /// until `now`. `usage`: its memory.
    pub(super) fn measure(&mut self, now: Instant, faults: u64, usage: Pages) {
        let until_next_scan = now.saturating_duration_since(self.at);
        let came = faults.saturating_sub(self.faults);
        (self.at, self.faults) = (now, faults);
        let a_second = u128::from(came) * 1000 / until_next_scan.as_millis().max(1);
        if self.left(now).is_some() {
            return;
        }
        let is_large = usage >= PAGES_MIN;
        if is_large && a_second * u128::from(PART) > u128::from(usage.0) {
            self.until = Some(now + self.left);
            self.left = (self.left * 2).min(LEFT.1);
        } else {
            (self.until, self.left) = (None, LEFT.0);
        }
    }

    /// Returns the remaining pause of proactive reclaim; `None` if the program does not thrash.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let until = self.until.filter(|until| *until > now)?;
        Some(until - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_while_a_program_thrashes() {
        let mut thrashing = ThrashingDetector::since(Instant::now(), 0);
        let begin = thrashing.at;
        let at = |ms| begin + Duration::from_millis(ms);
        let (used, small) = (Pages(100_000), Pages(10_000));
        // A program thrashes above `usage / 5` faults a second.
        thrashing.measure(at(500), 10_000, used);
        assert_eq!(thrashing.left(at(500)), None);
        thrashing.measure(at(750), 20_000, small);
        assert_eq!(thrashing.left(at(750)), None);
        thrashing.measure(at(1000), 30_000, used);
        assert_eq!(thrashing.left(at(1500)), Some(Duration::from_millis(500)));
        // Scans during the pause change nothing.
        thrashing.measure(at(1600), 30_000, used);
        assert_eq!(thrashing.left(at(2000)), None);
        thrashing.measure(at(2000), 50_000, used);
        assert_eq!(thrashing.left(at(2000)), Some(Duration::from_secs(2)));
        for second in (4..400).step_by(4) {
            thrashing.measure(at(second * 1000), second * 100_000, used);
        }
        assert!(thrashing.left <= LEFT.1);
        let fresh = ThrashingDetector::since(at(0), 9);
        assert!(!fresh.is_due(at(999)) && fresh.is_due(at(1000)));
        // Without faults the pause ends, and the next one has the initial length.
        let faults = thrashing.faults;
        thrashing.measure(at(1_000_000), faults, used);
        assert_eq!(
            (thrashing.left(at(1_000_000)), thrashing.left),
            (None, LEFT.0)
        );
    }
}
