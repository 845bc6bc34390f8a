//! Compares the speeds of two programs by pairs of times. The two times of a pair are measured
//! directly one after the other, so that other load on the machine affects both.
//!
//! Invariant: each pair has the same weight, so a pair that was interrupted moves the median by one
//! rank at most.

use serde::Serialize;

/// The median of the pairs' ratios, and its 95% confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) pairs: usize,
}

/// Minimum number of pairs for a median.
pub(super) const PAIRS_MIN: usize = 10;

/// Returns the ratio of the time alone to the time managed; `None` for fewer than [`PAIRS_MIN`]
/// pairs.
pub(super) fn ratio(pairs: &[(u64, u64)]) -> Option<Ratio> {
    let mut ratios: Vec<f64> = pairs
        .iter()
        .map(|(one, other)| quotient(*one, *other))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len();
    if count < PAIRS_MIN {
        return None;
    }
    // Ranks of the median's confidence interval, by the binomial distribution: `n / 2 -+ 0.98 *
    // sqrt(n)`.
    let half = ((count * 24) / 25).isqrt().max(1);
    let at = |rank: usize| ratios[rank.min(count - 1)];
    Some(Ratio {
        median: f64::midpoint(at((count - 1) / 2), at(count / 2)),
        low: at((count / 2).saturating_sub(half)),
        high: at(count / 2 + half),
        pairs: count,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds of less than a minute"
)]
/// Returns `one / other`; an `other` of 0 counts as 1.
fn quotient(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_follow_a_few_bad_pairs() {
        let mut pairs = vec![(100, 100); 40];
        pairs.extend([(100, 900), (100, 5_000), (900, 100)]);
        let reported = ratio(&pairs).expect("enough pairs");
        assert_eq!(
            (reported.median, reported.low, reported.high),
            (1.0, 1.0, 1.0)
        );
        assert_eq!(ratio(&pairs[..9]), None);
    }

    #[test]
    fn a_slowdown_of_a_tenth_is_detected() {
        let pairs: Vec<(u64, u64)> = (0..100).map(|n| (1000 + n % 7, 1100 + n % 5)).collect();
        let reported = ratio(&pairs).expect("enough pairs");
        assert!(reported.high < 0.95 && reported.low > 0.85, "{reported:?}");
    }
}
