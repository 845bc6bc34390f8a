//! `promotion-rate`: pages out by age; the age (threshold) is chosen so that refaults are at most a
//! share of the pages in use. It is the rule of far memory (Lagar-Cavilla et al., ASPLOS'19;
//! docs/policies.md).
//!
//! With a percentile, each past window votes for a threshold, and few windows exceed the rate. On
//! average refaults are then fewer than allowed; the more the windows differ, the fewer. Without a
//! percentile, all windows count as one: the refaults of all of `history` keep to the rate, however
//! they are spread.
//!
//! Invariant: the threshold is never below `min-age`, nor, with a percentile, below the best one
//! for the last window; nothing is paged out in the warm-up. What is learned does not depend on
//! what was paged out: a swapped-out page has an age, and refaults with it.

use super::AgeHistogram;
use super::pace::Pace;
use super::seen::{Order, Seen};
use super::settings::PromotionRateSettings;
use super::why::Why;
use super::windows::Windows;
use crate::units::{Millis, Pages, scaled};

/// State of the policy `promotion-rate` for one tenant.
#[derive(Clone, Debug)]
pub(super) struct PromotionRate {
    pub(super) settings: PromotionRateSettings,
    began: Millis,
    pace: Pace,
    /// When the present window began; `back` has the pages used again in it.
    since: Millis,
    back: AgeHistogram,
    past: Windows,
    together: Together,
    chosen: Option<Chosen>,
}

/// All past windows added up. Older ones count less: a window that is `history` ago counts 1/e.
#[derive(Clone, Debug, Default)]
struct Together {
    back: AgeHistogram,
    budget: u64,
}

/// Number by which pages are multiplied, so that rounding loses little as counts fade.
const FINE: u64 = 1024;

impl Together {
    fn push(&mut self, back: &AgeHistogram, budget: Pages, (lasted, history): (Millis, Millis)) {
        let kept = (history.since(lasted).0, history.0);
        self.back.fade(kept, back, FINE);
        let before = scaled(self.budget, kept.0, kept.1);
        self.budget = before.saturating_add(budget.0.saturating_mul(FINE));
    }
}

/// The choice made at the end of the last window, with the numbers that decided.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    threshold: Millis,
    in_use: Pages,
    may_come_back: Pages,
    /// Pages used again in that window that had been idle for the threshold or longer.
    came_back: Pages,
}

impl PromotionRate {
    pub(super) const fn new(settings: PromotionRateSettings, now: Millis) -> Self {
        Self {
            settings,
            began: now,
            pace: Pace::since(now),
            since: now,
            back: AgeHistogram::new(),
            past: Windows::new(settings.history),
            together: Together {
                back: AgeHistogram::new(),
                budget: 0,
            },
            chosen: None,
        }
    }

    /// Returns the idle time from which on pages are paged out; `None` before the first window has
    /// ended.
    pub(super) fn threshold(&self) -> Option<Millis> {
        self.chosen.map(|chosen| chosen.threshold)
    }

    pub(super) fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        self.pace.note(seen.now);
        self.back.merge(seen.back);
        let lasted = seen.now.since(self.since);
        if self.pace.is_over(lasted, self.settings.window) {
            self.end_window(seen);
        }
        let chosen = self.chosen?;
        let is_warm = seen.now.since(self.began) >= self.settings.warm_up;
        let is_cold = seen.ages.at_least(chosen.threshold) > Pages(0);
        (is_warm && is_cold).then_some(Order {
            older_than: chosen.threshold,
            most: Pages(u64::MAX),
            cache: Pages(0),
            why: Why::PromotionRate {
                threshold: chosen.threshold,
                rate: self.settings.rate,
                in_use: chosen.in_use,
                may_come_back: chosen.may_come_back,
                came_back: chosen.came_back,
            },
        })
    }

    /// Ends a window: finds the lowest threshold that would have kept this window to the rate, and
    /// chooses by that and by past windows.
    fn end_window(&mut self, seen: &Seen<'_>) {
        let settings = self.settings;
        let lasted = seen.now.since(self.since);
        let in_use = seen.ages.younger_than(settings.min_age);
        // The number allowed is in proportion to the window's real length, late or early.
        let budget = settings.rate.of(in_use, lasted);
        let threshold = match settings.percentile {
            0 => {
                let time = (lasted, settings.history);
                self.together.push(&self.back, budget, time);
                let Together { back, budget } = &self.together;
                back.lowest_with(settings.min_age, Pages(*budget)).0
            }
            percentile => {
                let best = self.back.lowest_with(settings.min_age, budget);
                self.past.push(seen.now, best.0);
                self.past.choose(percentile).unwrap_or(best.0)
            }
        };
        self.chosen = Some(Chosen {
            threshold: Millis(threshold),
            in_use,
            may_come_back: budget,
            came_back: self.back.at_least(Millis(threshold)),
        });
        self.back.clear();
        self.since = seen.now;
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::Rate;
    use super::super::testing::Shown;
    use super::*;

    fn policy(percentile: u64) -> PromotionRate {
        let settings = PromotionRateSettings {
            rate: Rate(10_000),
            percentile,
            warm_up: Millis(120_000),
            min_age: Millis(64),
            window: Millis(60_000),
            history: Millis(600_000),
        };
        PromotionRate::new(settings, Millis(0))
    }

    /// 1,000 pages are in use, so ten may refault.
    fn shown(back: &[(u64, u64)]) -> Shown {
        let mut shown = Shown::default();
        shown.ages.add(Millis(0), Pages(1000));
        shown.ages.add(Millis(1 << 20), Pages(500));
        for &(age, pages) in back {
            shown.back.add(Millis(age), Pages(pages));
        }
        shown
    }

    #[test]
    fn the_lowest_threshold_that_keeps_to_the_rate() {
        let mut policy = policy(980_000);
        let steady = shown(&[(64, 100), (1024, 6), (4096, 4)]);
        assert_eq!(policy.decide(&steady.at(60_000)), None, "it warms up");
        assert_eq!(policy.threshold(), Some(Millis(65)));
        let order = policy.decide(&steady.at(120_000)).expect("it is cold");
        assert_eq!(order.older_than, Millis(65));
        let Why::PromotionRate {
            in_use,
            may_come_back,
            came_back,
            ..
        } = order.why
        else {
            panic!("{:?}", order.why);
        };
        assert_eq!(
            (in_use, may_come_back, came_back),
            (Pages(1000), Pages(10), Pages(10))
        );
    }

    #[test]
    fn the_last_window_and_the_percentile_are_the_floor() {
        let mut policy = policy(500_000);
        let (calm, wild) = (shown(&[(64, 5)]), shown(&[(4096, 11)]));
        for n in 1..=5 {
            policy.decide(&calm.at(n * 60_000));
        }
        assert_eq!(policy.threshold(), Some(Millis(64)));
        // One window with many refaults decides the next one, and is outvoted afterwards.
        policy.decide(&wild.at(360_000));
        assert_eq!(policy.threshold(), Some(Millis(4160)));
        policy.decide(&calm.at(420_000));
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }

    /// Ten windows, of which one has all refaults: together they keep to the rate, which no
    /// percentile can express.
    #[test]
    fn one_window_may_exceed_the_rate_if_all_together_keep_it() {
        let mut policy = policy(0);
        let (calm, wild) = (shown(&[]), shown(&[(4096, 50)]));
        for n in 1..=8 {
            policy.decide(&calm.at(n * 60_000));
        }
        policy.decide(&wild.at(540_000));
        assert_eq!(
            policy.threshold(),
            Some(Millis(64)),
            "some 60 are allowed by now"
        );
        policy.decide(&wild.at(600_000));
        assert!(policy.threshold() > Some(Millis(4096)), "100 are not");
        // The one window is forgotten in time.
        for n in 11..=25 {
            policy.decide(&calm.at(n * 60_000));
        }
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }

    /// Scans come a little less than 10 s apart: a window of a minute has six of them, not seven.
    #[test]
    fn a_window_ends_at_the_nearest_scan() {
        let mut policy = policy(980_000);
        let steady = shown(&[(64, 100)]);
        for n in 1..=5 {
            policy.decide(&steady.at(n * 9_975));
        }
        assert_eq!(policy.threshold(), None, "it lasts");
        policy.decide(&steady.at(59_850));
        assert!(policy.threshold().is_some());
    }

    /// A late scan makes a long window: the number of pages that may refault grows with it.
    #[test]
    fn a_late_window_may_have_more() {
        let mut policy = policy(980_000);
        policy.decide(&shown(&[(64, 20)]).at(120_000));
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }
}
