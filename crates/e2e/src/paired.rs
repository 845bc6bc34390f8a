//! Differences of pairs: what one side costs over the other, and how sure that is.
//!
//! Each pair is measured back to back, so that whatever else the machine does is in both sides of it.

/// A mean and its interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mean {
    /// Of all differences.
    pub mean: f64,
    /// The mean lies within so much of that, with a confidence of 95%.
    pub within: f64,
}

/// Student's t for 95%, both sides, to within 2% from four degrees of freedom on.
fn student(freedom: f64) -> f64 {
    1.96 + 2.37 / freedom + 2.8 / freedom.powi(2)
}

/// The mean of some differences. Of a single one nothing is certain.
#[must_use]
pub fn mean(differences: &[f64]) -> Mean {
    #[expect(clippy::cast_precision_loss, reason = "a few dozen")]
    let count = differences.len() as f64;
    if differences.is_empty() {
        return Mean::default();
    }
    let mean = differences.iter().sum::<f64>() / count;
    let square = |one: &f64| (one - mean).powi(2);
    let variance = differences.iter().map(square).sum::<f64>() / (count - 1.0).max(1.0);
    let within = match differences.len() {
        1 => f64::INFINITY,
        _ => student(count - 1.0) * (variance / count).sqrt(),
    };
    Mean { mean, within }
}

/// Runs both sides `pairs` times, each first in every other pair; the pairs, first side first.
pub fn pairs<S, T>(
    pairs: u64,
    with: &mut S,
    mut one: impl FnMut(&mut S) -> T,
    mut other: impl FnMut(&mut S) -> T,
) -> Vec<(T, T)> {
    let mut pair = |number: u64| {
        if number.is_multiple_of(2) {
            let first = one(with);
            (first, other(with))
        } else {
            let second = other(with);
            (one(with), second)
        }
    };
    (0..pairs).map(&mut pair).collect()
}
