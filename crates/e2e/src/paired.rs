//! Statistics of paired measurements: the mean difference between two sides, such as with and
//! without pagetide, and its confidence interval.
//!
//! The two measurements of a pair directly follow each other, so other load on the machine affects
//! them equally.

/// A mean and its confidence interval, `mean - within` to `mean + within`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mean {
    /// Mean of all differences.
    pub mean: f64,
    /// Half the width of the interval that holds the true mean with a confidence of 95%.
    pub within: f64,
}

/// Two-sided 95% quantile of Student's t distribution, accurate to 2% from four degrees of freedom
/// on.
fn student_t(freedom: f64) -> f64 {
    1.96 + 2.37 / freedom + 2.8 / freedom.powi(2)
}

/// The mean of some differences; 0 without any, and for a single one the interval is infinite.
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
        _ => student_t(count - 1.0) * (variance / count).sqrt(),
    };
    Mean { mean, within }
}

/// Calls `one` and `other` `pairs` times; in every other pair `other` is called first. Returns the
/// results of each pair, that of `one` first.
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
