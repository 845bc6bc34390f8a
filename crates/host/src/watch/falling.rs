//! Computes refault rates that fall with increasing memory size, from counts that may rise by
//! chance.
//!
//! A larger memory misses no more than a smaller one (the inclusion property of LRU: Mattson and
//! others, 1970). But memory of each size was full for a different time, so by chance a larger size
//! can have a higher rate. Weighted isotonic regression finds the nearest rates that fall:
//! neighbouring sizes with rising rates get the same rate, the sum of their events divided by the
//! sum of their times (pool adjacent violators).
//!
//! Invariant: rates fall or stay equal; the total number of events does not change.

/// Number of events counted for one memory size, and the time in which they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) events: u64,
    /// Time for which events were counted, milliseconds.
    pub(super) time_ms: u64,
}

const MINUTE_MS: f64 = 60_000.0;

impl Counted {
    /// Returns the number of events per minute.
    #[expect(clippy::cast_precision_loss, reason = "counts and times below 2^53")]
    fn per_minute(self) -> f64 {
        match self.time_ms {
            0 => 0.0,
            time_ms => self.events as f64 * MINUTE_MS / time_ms as f64,
        }
    }

    /// Returns whether the rate of events is lower than that of `other`.
    fn is_less_often(self, other: Counted) -> bool {
        u128::from(self.events) * u128::from(other.time_ms)
            < u128::from(other.events) * u128::from(self.time_ms)
    }
}

/// Returns the events per minute for each size. `counted` must be in ascending order of sizes.
pub(super) fn falling(counted: impl IntoIterator<Item = Counted>) -> Vec<f64> {
    let mut pools: Vec<(Counted, usize)> = Vec::new();
    let mut sizes = 0;
    for counted in counted {
        sizes += 1;
        let mut pool = (counted, 1);
        while let Some((before, _)) = pools.last()
            && before.is_less_often(pool.0)
        {
            let (before, members) = pools.pop().unwrap_or_default();
            pool.0.events += before.events;
            pool.0.time_ms += before.time_ms;
            pool.1 += members;
        }
        pools.push(pool);
    }
    let each = pools
        .iter()
        .flat_map(|(pool, members)| std::iter::repeat_n(pool.per_minute(), *members));
    let rates: Vec<f64> = each.collect();
    debug_assert!(rates.len() == sizes && rates.is_sorted_by(|one, next| one >= next));
    rates
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(events: u64, seconds: u64) -> Counted {
        Counted {
            events,
            time_ms: seconds * 1000,
        }
    }

    #[test]
    fn falling_rates_stay_and_rising_rates_are_averaged() {
        let falls = [counted(30, 60), counted(20, 60), counted(5, 30)];
        assert_eq!(falling(falls), [30.0, 20.0, 10.0]);
        // Regression: the curve had 137 refaults a minute at one size, but 1,495 at a larger size,
        // which was watched for a shorter time.
        let rises = [counted(1062, 60), counted(137, 60), counted(374, 15)];
        let rates = falling(rises);
        assert_eq!(rates, [1062.0, 408.8, 408.8]);
        assert_eq!(falling([]), Vec::<f64>::new());
        assert_eq!(falling([counted(0, 0)]), [0.0]);
    }

    proptest! {
        #[test]
        fn rates_fall_whatever_was_counted(
            all in proptest::collection::vec((0_u64..1000, 1_u64..1000), 0..60)
        ) {
            let all: Vec<Counted> = all.iter().map(|(n, s)| counted(*n, *s)).collect();
            let rates = falling(all.iter().copied());
            prop_assert!(rates.is_sorted_by(|one, next| one >= next));
            let minutes = |one: &Counted| one.time_ms as f64 / MINUTE_MS;
            let sum: f64 = rates.iter().zip(&all).map(|(rate, one)| rate * minutes(one)).sum();
            let events: u64 = all.iter().map(|one| one.events).sum();
            prop_assert!((sum - events as f64).abs() < 1e-6 * (1.0 + sum));
        }
    }
}
