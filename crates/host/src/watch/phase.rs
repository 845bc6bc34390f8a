//! How much later than its interval each scan begins. The delay differs from scan to scan.
//!
//! Invariant: a scan is delayed by less than 1/16 of the interval, and by at most 50 ms; two
//! consecutive scans have different delays.
//!
//! Reason: an access between the reading and the clearing of an entry is lost. This gap is some
//! tenths of a millisecond for a small process, 10 ms for a large one. A program with a timer of
//! the same period as the scans would access its pages in the gap at each scan, or never. A page
//! used every second could seem cold for as long as it is watched.

use std::time::Duration;

/// A scan is delayed by less than this part of the interval.
const PART: u32 = 16;
/// Maximum delay of a scan, also with a long interval. It is longer than any observed gap between
/// reading and clearing.
const MOST: Duration = Duration::from_millis(50);

/// Returns the delay of scan number `round`. The delays are multiples of the golden ratio's
/// fraction, modulo the span, which are spread most evenly (Weyl). No period of a program stays in
/// phase with them, and the sequence is the same for each watch.
pub(super) fn late(round: u64, interval: Duration) -> Duration {
    /// The golden ratio's fraction, in units of 2^-64.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let span = (interval / PART).min(MOST);
    let steps = round.wrapping_mul(GOLDEN) >> 48;
    // `steps` is the fraction of the span, in units of 2^-16.
    let part = (u128::from(steps) * span.as_nanos()) >> 16;
    Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

/// Returns the time from scan number `round` to the next if scans are to be `every` apart: `every`,
/// or a little less.
pub(super) fn until_next_scan(round: u64, every: Duration) -> Duration {
    every.saturating_sub(late(round, every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_are_spread_over_the_span_and_never_pass_it() {
        for (ms, span) in [(100, 6_250), (1000, 50_000), (20_000, 50_000)] {
            let interval = Duration::from_millis(ms);
            let us: Vec<u128> = (0..64).map(|at| late(at, interval).as_micros()).collect();
            assert!(us.iter().all(|late| *late < span), "{us:?}");
            // Each eighth of the span contains about an eighth of the 64 delays: 8.
            for eighth in 0..8 {
                let within = span * eighth / 8..span * (eighth + 1) / 8;
                let of = us.iter().filter(|late| within.contains(late)).count();
                assert!((6..=10).contains(&of), "{eighth}: {of} of {us:?}");
            }
            // No two consecutive delays are within a tenth of the span of each other.
            assert!(us.windows(2).all(|two| two[0].abs_diff(two[1]) > span / 10));
        }
    }

    /// A tenant with a timer of 6 s, which is the interval of its policy's scans, is in another
    /// phase at each scan.
    #[test]
    fn no_pace_of_scans_has_a_period() {
        for every in [1000, 6000].map(Duration::from_millis) {
            let until_next_scan: Vec<Duration> =
                (0..16).map(|round| until_next_scan(round, every)).collect();
            assert!(
                until_next_scan.iter().all(|one| *one <= every),
                "{until_next_scan:?}"
            );
            assert!(
                until_next_scan.windows(2).all(|two| two[0] != two[1]),
                "{until_next_scan:?}"
            );
        }
    }

    #[test]
    fn no_interval_is_no_delay() {
        assert_eq!(late(7, Duration::ZERO), Duration::ZERO);
    }
}
