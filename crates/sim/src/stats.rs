//! Means and spreads of what was counted.

/// A count as a number with a fraction.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of pages stay far below 2^53"
)]
pub const fn number(count: u64) -> f64 {
    count as f64
}

/// The mean; 0 of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / number(values.len() as u64)
}

/// The standard deviation, of all and not of a sample; 0 of nothing.
#[must_use]
pub fn stddev(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: Vec<f64> = values.iter().map(|v| (v - mean) * (v - mean)).collect();
    self::mean(&squares).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values) - 5.0).abs() < 1e-12);
        assert!((stddev(&values) - 2.0).abs() < 1e-12);
        assert_eq!((mean(&[]), stddev(&[])), (0.0, 0.0));
    }
}
