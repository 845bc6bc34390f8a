//! Detects that a program allocates faster than proactive reclaim can reclaim.
//!
//! Invariant: what is measured is how often a second the program's charges met the cgroup's hard
//! limit while we reclaimed to keep it below that limit. If that is too often and the kernel
//! enforces the limit, proactive reclaim from the program pauses; then it is tried again.
//!
//! Why: the kernel reclaims within the fault that needs the memory, at 4 to 8 us a page. Proactive
//! reclaim beside the running program costs the program and us together 17 to 30 us a page, and the
//! program uses up the freed memory at once. (docs/benchmarks.md, How pages leave)

use std::time::Duration;

use super::super::moment::Moment;
use super::back_off::BackOff;

/// Number of hits of the hard limit a second, from which on the program counts as allocating faster
/// than we reclaim.
const OFTEN: u64 = 2000;
/// Time for which proactive reclaim is tried before the hits of the hard limit are counted.
const TRIED: Duration = Duration::from_millis(50);
/// First, then maximum pause of proactive reclaim; it doubles each time that the program is still
/// too fast.
const LEFT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// Counts how often a program meets its hard limit, and derives the pauses of proactive reclaim.
#[derive(Debug)]
pub(super) struct AllocationRace {
    /// Start of the present try of proactive reclaim; then the total number of hits at that time.
    at: Moment,
    hits: u64,
    back_off: BackOff,
}

impl AllocationRace {
    /// Returns the state at the beginning of the first try of proactive reclaim.
    pub(super) const fn new(now: Moment) -> AllocationRace {
        AllocationRace {
            at: now,
            hits: 0,
            back_off: BackOff::new(LEFT),
        }
    }

    /// Returns the remaining pause of proactive reclaim; `None` if the program is not too fast.
    /// `hits` returns the total number of hits of the hard limit until `now`. It is called only if
    /// the result depends on it.
    pub(super) fn left(
        &mut self,
        now: Moment,
        hits: impl FnOnce() -> Option<u64>,
    ) -> Option<Duration> {
        if let Some(left) = self.back_off.left(now) {
            return Some(left);
        }
        if self.back_off.has_ended(now) {
            // Hits during the pause do not count.
            (self.at, self.hits) = (now, hits()?);
            return None;
        }
        let elapsed = now.since(self.at);
        if elapsed < TRIED {
            return None;
        }
        let hits = hits()?;
        let came = hits.saturating_sub(self.hits);
        (self.at, self.hits) = (now, hits);
        if u128::from(came) * 1_000_000 < elapsed.as_micros() * u128::from(OFTEN) {
            self.back_off.reset();
            return None;
        }
        Some(self.back_off.begin(now))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::moment::at_ms;
    use super::*;

    #[test]
    fn back_off_doubles_while_the_program_allocates_faster_than_reclaim() {
        let mut allocation_race = AllocationRace::new(Moment::BEGIN);
        let mut at = |ms: u64, hits| allocation_race.left(at_ms(ms), || hits);
        // Fewer than 2,000 hits a second, then 2,000.
        assert_eq!(at(1000, Some(1999)), None);
        assert_eq!(at(1049, None), None);
        assert_eq!(at(1050, Some(2099)), Some(LEFT.0));
        // During the pause, hits are not read and do not count.
        assert_eq!(at(1060, None), Some(LEFT.0 - Duration::from_millis(10)));
        assert_eq!(at(1100, Some(9000)), None);
        assert_eq!(at(1150, Some(9100)), Some(LEFT.0 * 2));
        // The program has stopped allocating so fast.
        assert_eq!(at(1250, Some(20_000)), None);
        assert_eq!(at(1300, Some(20_099)), None);
        assert_eq!(at(1350, Some(20_199)), Some(LEFT.0));
        for ms in (2000..60_000).step_by(1000) {
            let _ = at(ms, Some(ms * 1000));
            let _ = at(ms + 50, Some(ms * 1000 + 1000));
        }
        let left = at(60_000, None).or_else(|| at(60_001, Some(1 << 40)));
        assert!(left <= Some(LEFT.1));
    }

    #[test]
    fn a_kernel_that_does_not_count_hits_leaves_reclaim_to_us() {
        let mut allocation_race = AllocationRace::new(at_ms(7));
        let mut at = |ms, hits| allocation_race.left(at_ms(ms), || hits);
        assert_eq!([at(100, None), at(10_000, None)], [None, None]);
        // The first hits that are read may be of any time before, and count from the start.
        assert_eq!(at(10_001, Some(1 << 40)), Some(LEFT.0));
    }
}
