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

use std::time::Duration;

use engine::Pages;

use super::super::moment::Moment;
use super::back_off::BackOff;

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
    /// `None` before the first sample, when the program first meets its limit.
    last: Option<(Moment, u64)>,
    back_off: BackOff,
}

impl Default for ThrashingDetector {
    fn default() -> ThrashingDetector {
        ThrashingDetector {
            last: None,
            back_off: BackOff::new(LEFT),
        }
    }
}

impl ThrashingDetector {
    /// Returns the remaining pause of proactive reclaim; `None` if the program does not thrash.
    /// `faults` returns the total number of the program's faults that had to read until `now`; it
    /// is called if it is time for another sample. `usage`: the program's memory.
    pub(super) fn left(
        &mut self,
        now: Moment,
        usage: Pages,
        faults: impl FnOnce() -> Option<u64>,
    ) -> Option<Duration> {
        match self.last {
            None => self.last = Some((now, faults()?)),
            Some((at, _)) if now.since(at) < APART => {}
            Some(last) => self.measure(now, last, faults()?, usage),
        }
        self.back_off.left(now)
    }

    /// Adds a sample; `at` and `before` are the time and the number of faults of the last one.
    fn measure(&mut self, now: Moment, (at, before): (Moment, u64), faults: u64, usage: Pages) {
        self.last = Some((now, faults));
        let (came, passed) = (faults.saturating_sub(before), now.since(at));
        let a_second = u128::from(came) * 1000 / passed.as_millis().max(1);
        if self.back_off.left(now).is_some() {
            return;
        }
        let is_large = usage >= PAGES_MIN;
        match is_large && a_second * u128::from(PART) > u128::from(usage.0) {
            true => _ = self.back_off.begin(now),
            false => self.back_off.reset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::moment::at_ms;
    use super::*;

    const USED: Pages = Pages(100_000);

    /// Returns the pause in milliseconds after each sample: time in ms, total number of faults.
    fn pauses(usage: Pages, samples: &[(u64, u64)]) -> Vec<u128> {
        let mut thrashing = ThrashingDetector::default();
        let sample = |(ms, faults): &(u64, u64)| {
            let left = thrashing.left(at_ms(*ms), usage, || Some(*faults));
            left.map_or(0, |left| left.as_millis())
        };
        samples.iter().map(sample).collect()
    }

    /// Regression: two redis servers under one hard limit served 64% of the requests that they
    /// served when only the kernel enforced the limit.
    #[test]
    fn a_program_that_refaults_a_fifth_of_its_memory_a_second_is_left_to_the_kernel() {
        let samples = [(0, 5_000), (1000, 25_000), (3000, 65_001), (6000, 125_004)];
        assert_eq!(pauses(USED, &samples), [0, 0, 0, 1000]);
        // Faults before the program met its limit do not count.
        assert_eq!(pauses(USED, &[(0, 1 << 40), (1000, 1 << 40)]), [0, 0]);
    }

    #[test]
    fn pauses_double_while_it_thrashes() {
        let faults = |second: u64| (second * 1000, second * 100_000);
        let got = pauses(USED, &[0, 1, 2, 4, 5, 8].map(faults));
        // A sample during a pause changes nothing: at 5 s three of the four seconds are left, and
        // the pause from 4 s on has ended at 8 s.
        assert_eq!(got, [0, 1000, 2000, 4000, 3000, 8000]);
    }

    #[test]
    fn without_faults_the_next_pause_is_short_again() {
        let samples = [
            (0, 0),
            (1000, 100_000),
            (2000, 200_000),
            (4000, 200_000),
            (5000, 300_000),
        ];
        assert_eq!(pauses(USED, &samples), [0, 1000, 2000, 0, 1000]);
    }

    /// The lists of a small program run empty before the kernel has summed its counters, and the
    /// kernel would kill it.
    #[test]
    fn a_small_program_is_never_left_to_the_kernel() {
        let small = Pages(PAGES_MIN.0 - 1);
        assert_eq!(pauses(small, &[(0, 0), (1000, 1 << 30)]), [0, 0]);
        assert_eq!(pauses(PAGES_MIN, &[(0, 0), (1000, 1 << 30)]), [0, 1000]);
    }

    #[test]
    fn counters_are_read_once_a_second() {
        let mut thrashing = ThrashingDetector::default();
        let never = || -> Option<u64> { unreachable!("it is not time") };
        assert_eq!(thrashing.left(at_ms(0), USED, || None), None);
        assert_eq!(thrashing.left(at_ms(1), USED, || Some(0)), None);
        assert_eq!(thrashing.left(at_ms(1000), USED, never), None);
        let left = thrashing.left(at_ms(1001), USED, || Some(1 << 30));
        assert_eq!(left, Some(LEFT.0));
        let left = thrashing.left(at_ms(1002), USED, never);
        assert_eq!(left, Some(LEFT.0 - Duration::from_millis(1)));
    }
}
