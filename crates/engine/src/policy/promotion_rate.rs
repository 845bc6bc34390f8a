//! The policy `promotion-rate`: pages out pages idle for longer than a threshold, which is chosen
//! so that refaults are at most a share of the pages in use. The rule is from "Software-Defined Far
//! Memory" (Lagar-Cavilla et al., ASPLOS'19; docs/policies.md).
//!
//! With a percentile, the threshold is that percentile of the best thresholds of the past windows,
//! so few windows exceed the rate. On average refaults are then fewer than allowed; the more the
//! windows differ, the fewer. With percentile 0, all windows count as one: the sum of the refaults
//! in `history` keeps to the rate, however they are distributed.
//!
//! Invariant: the threshold is never below `min-age` nor, with a percentile, below the best
//! threshold for the last window; no page is paged out during the warm-up. Page-outs do not change
//! what the policy learns: a swapped-out page keeps its age, and its refault counts at that age.

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
    /// When the present window began; `back` has the pages used again since then.
    since: Millis,
    back: AgeHistogram,
    past: Windows,
    all_windows: AllWindows,
    chosen: Option<Chosen>,
}

/// The sum of all past windows. Older windows count less: a window `history` ago counts 1/e.
#[derive(Clone, Debug, Default)]
struct AllWindows {
    back: AgeHistogram,
    budget: u64,
}

/// Factor by which page counts are multiplied, so that rounding loses little when counts fade.
const FIXED_POINT: u64 = 1024;

impl AllWindows {
    fn push(&mut self, back: &AgeHistogram, budget: Pages, (lasted, history): (Millis, Millis)) {
        let kept = (history.since(lasted).0, history.0);
        self.back.fade(kept, back, FIXED_POINT);
        let before = scaled(self.budget, kept.0, kept.1);
        self.budget = before.saturating_add(budget.0.saturating_mul(FIXED_POINT));
    }
}

/// The threshold chosen at the end of the last window, with the numbers that decided.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    threshold: Millis,
    in_use: Pages,
    may_come_back: Pages,
    /// Number of pages used again in that window that had been idle for the threshold or longer.
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
            all_windows: AllWindows {
                back: AgeHistogram::new(),
                budget: 0,
            },
            chosen: None,
        }
    }

    /// Returns the idle time after which pages are paged out; `None` before the first window has
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

    /// Ends a window: finds the lowest threshold at which this window would have kept to the rate,
    /// and chooses the threshold by that and by past windows.
    fn end_window(&mut self, seen: &Seen<'_>) {
        let settings = self.settings;
        let lasted = seen.now.since(self.since);
        let in_use = seen.ages.younger_than(settings.min_age);
        // The number allowed is in proportion to the real length of the window, which may end early
        // or late.
        let budget = settings.rate.of(in_use, lasted);
        let threshold = match settings.percentile {
            0 => {
                let time = (lasted, settings.history);
                self.all_windows.push(&self.back, budget, time);
                let AllWindows { back, budget } = &self.all_windows;
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

    /// Input with 1,000 pages in use, of which ten may refault in a minute.
    fn input(back: &[(u64, u64)]) -> Shown {
        let mut input = Shown::default();
        input.ages.add(Millis(0), Pages(1000));
        input.ages.add(Millis(1 << 20), Pages(500));
        for &(age, pages) in back {
            input.back.add(Millis(age), Pages(pages));
        }
        input
    }

    #[test]
    fn the_lowest_threshold_that_keeps_to_the_rate() {
        let mut policy = policy(980_000);
        let steady = input(&[(64, 100), (1024, 6), (4096, 4)]);
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
        let (calm, wild) = (input(&[(64, 5)]), input(&[(4096, 11)]));
        for n in 1..=5 {
            policy.decide(&calm.at(n * 60_000));
        }
        assert_eq!(policy.threshold(), Some(Millis(64)));
        // A window with many refaults decides the next threshold; after that the percentile ignores
        // it.
        policy.decide(&wild.at(360_000));
        assert_eq!(policy.threshold(), Some(Millis(4160)));
        policy.decide(&calm.at(420_000));
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }

    /// One of ten windows has all refaults. Their sum keeps to the rate, so the threshold stays at
    /// its minimum; no percentile would allow that.
    #[test]
    fn one_window_may_exceed_the_rate_if_all_together_keep_it() {
        let mut policy = policy(0);
        let (calm, wild) = (input(&[]), input(&[(4096, 50)]));
        for n in 1..=8 {
            policy.decide(&calm.at(n * 60_000));
        }
        policy.decide(&wild.at(540_000));
        assert_eq!(
            policy.threshold(),
            Some(Millis(64)),
            "about 60 refaults are allowed by now"
        );
        policy.decide(&wild.at(600_000));
        assert!(
            policy.threshold() > Some(Millis(4096)),
            "100 refaults are too many"
        );
        // With time the windows with refaults are forgotten.
        for n in 11..=25 {
            policy.decide(&calm.at(n * 60_000));
        }
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }

    /// Scans are slightly less than 10 s apart: a window of a minute has six of them, not seven.
    #[test]
    fn a_window_ends_at_the_nearest_scan() {
        let mut policy = policy(980_000);
        let steady = input(&[(64, 100)]);
        for n in 1..=5 {
            policy.decide(&steady.at(n * 9_975));
        }
        assert_eq!(policy.threshold(), None, "the window has not ended");
        policy.decide(&steady.at(59_850));
        assert!(policy.threshold().is_some());
    }

    /// A late scan makes a long window: the number of pages that may refault grows with it.
    #[test]
    fn a_late_window_may_have_more() {
        let mut policy = policy(980_000);
        policy.decide(&input(&[(64, 20)]).at(120_000));
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }
}
