//! The axes of a drawing: convert values to coordinates, and choose round values to mark.
//!
//! Invariant: an axis covers all values that it was made from.

/// An axis. Coordinates are in units of the drawing.
#[derive(Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Difference between two marked values; not used by a logarithmic axis.
    step: f64,
    from: f64,
    to: f64,
}

/// Approximate number of marks.
const TICKS: f64 = 5.0;

impl Axis {
    /// Makes a y axis. It begins at zero, or for a logarithmic axis at a power of ten, and ends at
    /// a round value.
    pub(super) fn upward(values: &[f64], log: bool, places: [f64; 2]) -> Self {
        let (low, high) = span(values, log);
        let (low, high) = if log {
            (low, high)
        } else {
            (low.min(0.0), high.max(0.0))
        };
        let mut axis = Self::over(low, high, log, places);
        if log {
            axis.low = 10f64.powf(axis.low.log10().floor());
            axis.high = 10f64.powf(axis.high.log10().ceil());
        } else {
            let step = axis.step;
            axis.low = (axis.low / step).floor() * step;
            axis.high = (axis.high / step).ceil() * step;
        }
        axis
    }

    /// Makes an x axis over the values; it begins at zero if that leaves little empty space.
    pub(super) fn along(values: &[f64], log: bool, places: [f64; 2]) -> Self {
        let (low, high) = span(values, log);
        let from_zero = !log && low > 0.0 && low < 0.4 * high;
        Self::over(if from_zero { 0.0 } else { low }, high, log, places)
    }

    fn over(low: f64, high: f64, log: bool, [from, to]: [f64; 2]) -> Self {
        let high = match () {
            () if high > low => high,
            () if log => low * 10.0,
            () => low + 1.0,
        };
        Self {
            low,
            high,
            log,
            step: step((high - low) / TICKS),
            from,
            to,
        }
    }

    /// Returns the coordinate of a value; values outside of the axis are moved to its ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns the coordinate where bars begin: zero, or the end of a logarithmic axis, which has
    /// no zero.
    pub(super) fn ground(&self) -> f64 {
        self.at(if self.log { self.low } else { 0.0 })
    }

    /// Returns the smallest and the largest value of the axis.
    pub(super) const fn ends(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Returns the round values to mark.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let inside = |v: &f64| *v >= self.low * (1.0 - 1e-9) && *v <= self.high * (1.0 + 1e-9);
        if self.log {
            let decades = (-12i32..=18).map(|n| 10f64.powi(n));
            let decades: Vec<f64> = decades.filter(inside).collect();
            // Labels of more than eight powers of ten would overlap.
            let every = decades.len().div_ceil(8).max(1);
            return decades.into_iter().step_by(every).collect();
        }
        let step = self.step;
        let first = (self.low / step - 1e-9).ceil();
        (0..12)
            .map(|n| (first + f64::from(n)) * step)
            .take_while(|v| *v <= self.high + step * 1e-9)
            .collect()
    }
}

/// Returns the smallest round number that is at least `rough`.
fn step(rough: f64) -> f64 {
    let unit = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * unit);
    steps.into_iter().find(|s| *s >= rough).unwrap_or(rough)
}

/// Returns the smallest and the largest value; for a logarithmic axis, of the values above zero.
fn span(values: &[f64], log: bool) -> (f64, f64) {
    let all = values.iter().copied().filter(|v| v.is_finite());
    let all = all.filter(|v| !log || *v > 0.0);
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    if low <= high {
        (low, high)
    } else {
        (1.0, 10.0)
    }
}

/// Formats a number on an axis. Numbers below 10,000 are written in full, longer ones in thousands,
/// millions or billions: `12.5k`.
pub(super) fn short(value: f64) -> String {
    for (unit, letter) in [(1e9_f64, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= unit.max(1e4) {
            return format!("{}{letter}", trimmed(value / unit));
        }
    }
    trimmed(value)
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let axis = Axis::upward(&[-12.2, 3.0, 86.9], false, [0.0, 100.0]);
        assert_eq!(axis.ticks(), [-20.0, 0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert!((axis.ground() - 100.0 / 6.0).abs() < 1e-9);
        let below = Axis::upward(&[-7.5, -4.0], false, [0.0, 80.0]);
        assert_eq!(
            below.ends(),
            [-8.0, 0.0],
            "bars of what is saved begin at zero, too"
        );
        let axis = Axis::upward(&[8.0, 100_001.0], true, [0.0, 60.0]);
        assert_eq!(axis.ends(), [1.0, 1e6]);
        assert_eq!(axis.ticks().len(), 7);
        assert!((axis.at(1e3) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn an_x_axis_has_little_empty_space() {
        let along = |values: &[f64]| Axis::along(values, false, [0.0, 1.0]).ends();
        assert_eq!(along(&[1024.0, 2048.0]), [1024.0, 2048.0]);
        assert_eq!(along(&[1.0, 10.0]), [0.0, 10.0]);
        assert_eq!(along(&[5.0]), [5.0, 6.0]);
        assert_eq!(along(&[]), [0.0, 10.0]);
    }

    #[test]
    fn numbers_on_an_axis() {
        let shown = [0.0, 2048.0, 12_500.0, 3e6, -0.25, 1e10].map(short);
        assert_eq!(shown, ["0", "2048", "12.5k", "3M", "-0.25", "10G"]);
    }
}
