//! When within its interval a look comes.
//!
//! Invariant: a look is late by less than a sixteenth of the interval, and by 50 ms at most; and two neighbours are
//! late by different times. What is accessed between the reading of an entry and its clearing leaves no trace (some
//! tenths of a millisecond of a small process, ten of a large one). A program that works by a timer of the same period
//! as the looks would meet that gap with each pass, or with none: a page in use each second would look cold for as long
//! as it is watched.

use std::time::Duration;

/// A look is late by less than this part of the interval.
const PART: u32 = 16;
/// It is never late by more, however long the interval is: longer than any gap between reading and clearing that was seen.
const MOST: Duration = Duration::from_millis(50);

/// How late look number `round` is. By the golden ratio, whose multiples lie the farthest apart (Weyl), so no run of looks
/// is in the same phase, and the same watch is the same each time.
pub(super) fn late(round: u64, interval: Duration) -> Duration {
    /// The golden ratio's fraction, of 2^64.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let span = (interval / PART).min(MOST);
    let steps = round.wrapping_mul(GOLDEN) >> 48;
    // Below 2^16 of 2^16 parts.
    let part = (u128::from(steps) * span.as_nanos()) >> 16;
    Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

/// Time from look number `round` to the next one, of looks that are to be `every` apart: that, or a little less.
pub(super) fn apart(round: u64, every: Duration) -> Duration {
    every.saturating_sub(late(round, every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_spread_over_the_span_and_never_pass_it() {
        for (ms, span) in [(100, 6_250), (1000, 50_000), (20_000, 50_000)] {
            let interval = Duration::from_millis(ms);
            let us: Vec<u128> = (0..64).map(|at| late(at, interval).as_micros()).collect();
            assert!(us.iter().all(|late| *late < span), "{us:?}");
            // Each eighth of the span has its share of 64, nearly: 8.
            for eighth in 0..8 {
                let within = span * eighth / 8..span * (eighth + 1) / 8;
                let of = us.iter().filter(|late| within.contains(late)).count();
                assert!((6..=10).contains(&of), "{eighth}: {of} of {us:?}");
            }
            // A gap of a tenth of the span is not met by two looks in a row.
            assert!(us.windows(2).all(|two| two[0].abs_diff(two[1]) > span / 10));
        }
    }

    /// A tenant that works by a timer of 6 s, as often as its policy looks, is not in the same phase with each look.
    #[test]
    fn no_pace_of_looks_has_a_period() {
        for every in [1000, 6000].map(Duration::from_millis) {
            let apart: Vec<Duration> = (0..16).map(|round| apart(round, every)).collect();
            assert!(apart.iter().all(|one| *one <= every), "{apart:?}");
            assert!(apart.windows(2).all(|two| two[0] != two[1]), "{apart:?}");
        }
    }

    #[test]
    fn no_interval_is_no_delay() {
        assert_eq!(late(7, Duration::ZERO), Duration::ZERO);
    }
}
