//! `promotion-rate`: what leaves is chosen by age, and the age so that no more comes back than a share of what is in use.
//! The rule of far memory (Lagar-Cavilla et al., ASPLOS'19; docs/policies.md).
//!
//! With a percentile each past window votes, and few windows have more than the rate; on average less comes back, the less the
//! more windows differ. Without one all windows are one: what comes back in `history` is the rate of it, however it is spread.
//!
//! Invariant: the threshold is never below `min-age`, nor, with a percentile, below what the last window was best with; nothing
//! leaves in the warm-up. What is learned does not depend on what left: a page that is out has an age, and comes back with it.

use super::AgeHistogram;
use super::pace::Pace;
use super::seen::{Order, Seen};
use super::settings::PromotionRateSettings;
use super::why::Why;
use super::windows::Windows;
use crate::units::{Millis, Pages, scaled};

/// Its state.
#[derive(Clone, Debug)]
pub(super) struct PromotionRate {
    pub(super) settings: PromotionRateSettings,
    began: Millis,
    pace: Pace,
    /// The present window: when it began, and what was used again in it.
    since: Millis,
    back: AgeHistogram,
    past: Windows,
    together: Together,
    chosen: Option<Chosen>,
}

/// All past windows as one, of which the older count less: those of `history` ago 1/e.
#[derive(Clone, Debug, Default)]
struct Together {
    back: AgeHistogram,
    budget: u64,
}

/// A page counts as so many, so that little is lost to rounding as it fades.
const FINE: u64 = 1024;

impl Together {
    fn push(&mut self, back: &AgeHistogram, budget: Pages, (lasted, history): (Millis, Millis)) {
        let kept = (history.since(lasted).0, history.0);
        self.back.fade(kept, back, FINE);
        let before = scaled(self.budget, kept.0, kept.1);
        self.budget = before.saturating_add(budget.0.saturating_mul(FINE));
    }
}

/// What the last window's end chose.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    threshold: Millis,
    in_use: Pages,
    may_come_back: Pages,
    /// Of the window before, at this threshold.
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

    /// What was not used for so long leaves; none yet.
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

    /// The lowest threshold at which this window would have kept to the rate; then the past is asked.
    fn end_window(&mut self, seen: &Seen<'_>) {
        let settings = self.settings;
        let lasted = seen.now.since(self.since);
        let in_use = seen.ages.younger_than(settings.min_age);
        // A window counts as long as it was, late or early.
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

    /// 1,000 pages are in use, so ten may come back.
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
        // One wild window holds for the next, and is outvoted after.
        policy.decide(&wild.at(360_000));
        assert_eq!(policy.threshold(), Some(Millis(4160)));
        policy.decide(&calm.at(420_000));
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }

    /// Ten windows of which one has all that came back: together they kept to the rate, and no percentile says so.
    #[test]
    fn all_windows_together_may_have_one_that_is_wild() {
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
        // It is forgotten in time.
        for n in 11..=25 {
            policy.decide(&calm.at(n * 60_000));
        }
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }

    /// Looks come a little less than 10 s apart: six of them are a window, not seven.
    #[test]
    fn a_window_ends_at_the_look_that_is_nearest() {
        let mut policy = policy(980_000);
        let steady = shown(&[(64, 100)]);
        for n in 1..=5 {
            policy.decide(&steady.at(n * 9_975));
        }
        assert_eq!(policy.threshold(), None, "it lasts");
        policy.decide(&steady.at(59_850));
        assert!(policy.threshold().is_some());
    }

    /// A look that is late makes a long window: what may come back grows with it.
    #[test]
    fn a_late_window_may_have_more() {
        let mut policy = policy(980_000);
        policy.decide(&shown(&[(64, 20)]).at(120_000));
        assert_eq!(policy.threshold(), Some(Millis(64)));
    }
}
