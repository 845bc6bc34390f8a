//! A logarithmic scale for rates that range from very small to very large. A decade is a factor of
//! ten.
//!
//! Invariant: for any rates, the scale spans at most [`MOST`] decades, and the largest rate is on
//! the scale. A rate of zero has no height.

/// Maximum number of decades on the scale.
const MOST: f64 = 8.0;
/// Maximum number of marks: one for each power of ten, including the ends of the scale.
const MARKS: usize = 9;

/// A logarithmic scale from `10^low` to `10^high`; both exponents are whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decades {
    low: f64,
    high: f64,
}

impl Decades {
    /// Returns the scale for these rates; `None` if all are zero.
    #[must_use]
    pub fn of(rates: impl Iterator<Item = f64>) -> Option<Decades> {
        // The next power of ten above each rate must be finite, so rates are capped.
        let some = rates.filter(|rate| rate.is_finite() && *rate > 0.0);
        let some = some.map(|rate| rate.min(1e300));
        let (least, most) = some.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| {
            (least.min(rate), most.max(rate))
        });
        if most <= 0.0 {
            return None;
        }
        let (low, high) = (least.log10().floor(), most.log10().ceil());
        let high = if high > low { high } else { low + 1.0 };
        Some(Decades {
            low: low.max(high - MOST),
            high,
        })
    }

    /// Returns the height of a rate on the scale: 0 at the lower end, 1 at the upper end. `None`
    /// for a rate of zero.
    #[must_use]
    pub fn height(self, rate: f64) -> Option<f64> {
        let above = rate.log10() - self.low;
        (rate > 0.0).then(|| (above / (self.high - self.low)).clamp(0.0, 1.0))
    }

    /// Returns the rates at the two ends of the scale: lower, upper.
    #[must_use]
    pub fn ends(self) -> (f64, f64) {
        (10_f64.powf(self.low), 10_f64.powf(self.high))
    }

    /// Returns the powers of ten on the scale, ascending, including its ends.
    pub(crate) fn powers(self) -> impl Iterator<Item = f64> {
        let (low, high) = self.ends();
        std::iter::successors(Some(low), |power| Some(power * 10.0))
            .take_while(move |power| *power < high * 2.0)
            .take(MARKS)
    }
}

/// Formats a power of ten briefly: `1M`, `10k`, `100`, `0.1`.
#[must_use]
pub fn short_rate(rate: f64) -> String {
    match rate {
        n if n >= 999_999.0 => format!("{:.0}M", n / 1e6),
        n if n >= 999.9 => format!("{:.0}k", n / 1e3),
        n if n >= 0.99 => format!("{n:.0}"),
        n => format!("{n}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_lie_between_powers_of_ten() {
        let decades = Decades::of([0.0, 0.3, 4_000.0, f64::NAN].into_iter()).expect("some");
        let powers: Vec<String> = decades.powers().map(short_rate).collect();
        assert_eq!(powers, ["0.1", "1", "10", "100", "1k", "10k"]);
        assert_eq!(decades.height(0.0), None);
        assert_eq!(
            (decades.height(0.01), decades.height(1e9)),
            (Some(0.0), Some(1.0))
        );
        let middle = decades.height(10_f64.powf(1.5)).expect("something");
        assert!((middle - 0.5).abs() < 1e-9, "{middle}");
        assert_eq!(Decades::of([0.0].into_iter()), None);
        let least = Decades::of([5e-324].into_iter()).expect("something");
        assert!(least.powers().count() <= 9, "though the lowest power is 0");
        let largest = Decades::of([f64::MAX].into_iter()).expect("something");
        assert_eq!(largest.powers().count(), 2);
        let one = Decades::of([10.0].into_iter()).expect("one");
        assert_eq!(one.ends(), (10.0, 100.0), "an axis has a length");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_axis_has_few_marks(rates in prop::collection::vec(any::<f64>(), 0..9)) {
            if let Some(decades) = Decades::of(rates.iter().copied()) {
                let powers = decades.powers().count();
                prop_assert!((2..=9).contains(&powers), "{powers}");
                let is_inside = |rate: &f64| decades.height(*rate).is_none_or(|place| (0.0..=1.0).contains(&place));
                prop_assert!(rates.iter().all(is_inside));
            }
        }
    }
}
