//! How much of a processor looks may take.
//!
//! Invariant: between two looks there is so much time that the last one was no more than its share of it, whatever interval is asked
//! for; between those that reclaim needs besides, twice as much.

use std::time::Duration;

/// The whole, in the unit of a budget.
const ALL: u32 = 10_000;

/// A share of one processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookBudget(u32);

impl Default for LookBudget {
    /// A tenth.
    fn default() -> LookBudget {
        LookBudget(ALL / 10)
    }
}

impl LookBudget {
    /// So many hundredths of a percent, 1 to 10,000: what is outside is the nearest of these.
    #[must_use]
    pub fn of_hundredths(hundredths: u16) -> LookBudget {
        LookBudget(u32::from(hundredths).clamp(1, ALL))
    }

    /// From the beginning of a look that took so much of a processor to the next.
    pub(super) fn apart(self, took: Duration) -> Duration {
        took.saturating_mul(ALL) / self.0
    }

    /// What reading processes may take of a processor in a look so long after the one before, where the look takes this `beside`;
    /// a quarter of all that it may take at least.
    pub(super) fn of(self, apart: Duration, beside: Duration) -> Duration {
        let all = apart.saturating_mul(self.0) / ALL;
        all.saturating_sub(beside).max(all / 4)
    }

    /// [`LookBudget::apart`] of a look that reclaim needs between two intervals.
    pub(super) fn apart_for_reclaim(self, took: Duration) -> Duration {
        self.apart(took).saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_less_it_is_the_rarer_looks_are() {
        let took = Duration::from_millis(3);
        let of = |hundredths| LookBudget::of_hundredths(hundredths).apart(took);
        assert_eq!(of(1000), Duration::from_millis(30));
        assert_eq!(LookBudget::default(), LookBudget::of_hundredths(1000));
        assert_eq!([of(10), of(1)].map(|apart| apart.as_secs()), [3, 30]);
        assert_eq!([of(10_000), of(u16::MAX)], [took; 2]);
        assert_eq!(of(0), of(1));
        let second = Duration::from_secs(1);
        assert_eq!(LookBudget::default().of(second, took), took * 97 / 3);
        assert_eq!(LookBudget::default().of(second, second), second / 40);
        let all = LookBudget::of_hundredths(10_000);
        assert_eq!(all.apart_for_reclaim(took), took * 2);
        assert!(all.apart(Duration::MAX) > Duration::from_secs(1 << 40));
    }
}
