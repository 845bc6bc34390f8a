//! When a period of a policy is over: at the look that is nearest to its end.
//!
//! Invariant: nothing is known of looks to come; the next one is taken to come as long after this one as this one came after
//! the last. A look is hardly ever due at the very end of a period. (The story: looks came every 6 s less up to 50 ms, so a
//! period of 6 s was not over at the first of them, and took two: each policy worked at half its pace.)

use crate::units::Millis;

/// How far apart looks are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The last look; none before the first.
    last: Option<Millis>,
    apart: Millis,
}

impl Pace {
    /// Of looks the first of which is to come.
    pub(super) const fn new() -> Self {
        Self {
            last: None,
            apart: Millis(0),
        }
    }

    /// Of looks that begin now.
    pub(super) const fn since(now: Millis) -> Self {
        Self {
            last: Some(now),
            apart: Millis(0),
        }
    }

    /// There is a look: once for each, before it is asked whether a period is over.
    pub(super) fn note(&mut self, now: Millis) {
        self.apart = self.last.map_or(Millis(0), |last| now.since(last));
        self.last = Some(now);
    }

    /// Whether a period that has lasted so long is nearer to its end now than it will be at the next look.
    pub(super) const fn is_over(&self, lasted: Millis, period: Millis) -> bool {
        lasted.0.saturating_add(self.apart.0 / 2) >= period.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The looks of some, milliseconds, at which a period that begins at 0 and again with each end was over.
    fn ends(looks: &[u64], period: u64) -> Vec<u64> {
        let (mut pace, mut since, mut ends) = (Pace::since(Millis(0)), 0, Vec::new());
        for &at in looks {
            pace.note(Millis(at));
            if pace.is_over(Millis(at - since), Millis(period)) {
                since = at;
                ends.push(at);
            }
        }
        ends
    }

    #[test]
    fn a_look_that_is_early_by_a_hair_ends_a_period() {
        let looks = [5_975, 11_950, 17_925];
        assert_eq!(ends(&looks, 6_000), looks);
        // Six looks are a window of a minute, and no seventh is waited for.
        let looks: Vec<u64> = (1..=12).map(|n| n * 9_975).collect();
        assert_eq!(ends(&looks, 60_000), [59_850, 119_700]);
    }

    #[test]
    fn of_two_looks_the_nearer_one_ends_a_period() {
        assert_eq!(ends(&[4_000, 8_000, 12_000], 6_500), [8_000]);
        assert_eq!(ends(&[4_400, 8_800], 6_000), [4_400, 8_800]);
        assert_eq!(ends(&[1_000, 2_000, 2_400, 3_400], 3_000), [3_400]);
        // Those that are farther apart than a period end one each.
        assert_eq!(ends(&[20_000, 40_000], 6_000), [20_000, 40_000]);
    }
}
