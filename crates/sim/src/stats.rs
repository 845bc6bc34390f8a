//! Statistics of lists of numbers: mean, median, standard deviation, extremes.

/// Converts a count to a floating-point number.
#[must_use]
pub const fn number(count: u64) -> f64 {
    count as f64
}

/// Rounds a number down to an integer. The caller makes sure that it fits in 32 bits.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass what lies between 0 and some pages"
)]
pub const fn whole(x: f64) -> u32 {
    x as u32
}

/// Returns the smallest value; `f64::MAX` if there is none.
#[must_use]
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}

/// Returns the largest value, at least 0.
#[must_use]
pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Returns the mean; 0 if there is no value.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / number(values.len() as u64)
}

/// Returns the standard deviation of a whole population, not of a sample; 0 if there is no value.
#[must_use]
pub fn stddev(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: Vec<f64> = values.iter().map(|v| (v - mean) * (v - mean)).collect();
    self::mean(&squares).sqrt()
}

/// Returns the median; of two middle values the lower one; 0 if there is no value.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len().saturating_sub(1) / 2;
    sorted.get(middle).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values) - 5.0).abs() < 1e-12);
        assert!((stddev(&values) - 2.0).abs() < 1e-12);
        assert_eq!((mean(&[]), stddev(&[]), median(&[])), (0.0, 0.0, 0.0));
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (2.0, 1.0));
    }
}
