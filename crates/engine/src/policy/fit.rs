//! The policy `fit`: pages out pages above the smallest limit at which refaults are at most a given
//! share of the pages in memory.
//!
//! An LRU evicts pages in order of age. So a limit as large as the number of pages younger than T
//! keeps each page in memory that is used again before it is T old. The histograms of page ages and
//! of pages used again therefore say for every limit at once how many refaults it causes, without
//! trying it (docs/policies.md).
//!
//! Invariant: the limit is at least the size that the last window needed, and the size that a
//! configured part (`percentile`) of the past windows needed; no page is paged out during the
//! warm-up. Pages of unknown age count as needed.

use super::AgeHistogram;
use super::pace::Pace;
use super::rate::Rate;
use super::seen::{Order, Seen};
use super::settings::FitSettings;
use super::why::Why;
use super::windows::Windows;
use crate::units::{Bytes, Millis, Pages};

/// State of the policy `fit` for one tenant.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) settings: FitSettings,
    began: Millis,
    pace: Pace,
    since: Millis,
    back: AgeHistogram,
    refaults: Pages,
    past: Windows,
    limit: Option<Bytes>,
}

/// The number of pages that must stay in memory to keep the refaults of one window within the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    pages: Pages,
    /// `pages` are all pages younger than this age.
    younger_than: Millis,
}

impl Fit {
    pub(super) const fn new(settings: FitSettings, now: Millis) -> Self {
        Self {
            settings,
            began: now,
            pace: Pace::since(now),
            since: now,
            back: AgeHistogram::new(),
            refaults: Pages(0),
            past: Windows::new(settings.history),
            limit: None,
        }
    }

    /// Returns the limit, above which the policy pages out pages; `None` before the first window
    /// has ended.
    pub(super) const fn limit(&self) -> Option<Bytes> {
        self.limit
    }

    pub(super) fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        self.pace.note(seen.now);
        self.back.merge(seen.back);
        self.refaults.0 += seen.refaults.0;
        let lasted = seen.now.since(self.since);
        if !self.pace.is_over(lasted, self.settings.window) {
            return None;
        }
        let mut ages = seen.ages.clone();
        ages.merge(seen.out);
        let need = need(&ages, &self.back, (self.settings.rate, lasted));
        self.past.push(seen.now, need.pages.0);
        let refaults = core::mem::take(&mut self.refaults);
        self.back.clear();
        self.since = seen.now;
        let needed = self
            .past
            .choose(self.settings.percentile)
            .map_or(need.pages, Pages);
        let unknown = seen.usage.less(seen.ages.total());
        let limit = Pages(needed.0.saturating_add(unknown.0));
        self.limit = Some(limit.bytes());
        // The warm-up ends together with a window, because pages are paged out only then.
        let age = seen.now.since(self.began);
        let is_warm = self.pace.is_over(age, self.settings.warm_up);
        let over = Pages(if is_warm { seen.usage.less(limit).0 } else { 0 });
        seen.oldest(over).map(|older_than| Order {
            older_than,
            most: over,
            cache: Pages(0),
            why: Why::Fit {
                limit: limit.bytes(),
                rate: self.settings.rate,
                last: need.pages,
                younger_than: need.younger_than,
                refaults,
                lasted,
            },
        })
    }
}

/// Returns the smallest number of pages that must stay in memory to keep refaults within `rate`:
/// all pages younger than some age. `back` are the pages used again in a window of length `lasted`.
fn need(ages: &AgeHistogram, back: &AgeHistogram, (rate, lasted): (Rate, Millis)) -> Need {
    let mut found = Need {
        pages: ages.total(),
        younger_than: Millis(u64::MAX),
    };
    // From the highest age down, the number of refaults grows, and fewer pages stay.
    let mut edges: alloc::vec::Vec<Millis> =
        back.iter().chain(ages.iter()).map(|(at, _)| at).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut older, mut refaults) = (Pages(0), Pages(0));
    let mut in_order = (ages.iter().rev().peekable(), back.iter().rev().peekable());
    let total = ages.total();
    for edge in edges.into_iter().rev() {
        if let Some((_, pages)) = in_order.0.next_if(|(at, _)| *at == edge) {
            older.0 += pages.0;
        }
        if let Some((_, pages)) = in_order.1.next_if(|(at, _)| *at == edge) {
            refaults.0 += pages.0;
        }
        let stays = total.less(older);
        if refaults > rate.of(stays, lasted) {
            break;
        }
        found = Need {
            pages: stays,
            younger_than: edge,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Noise, Shown};
    use super::*;

    const MINUTE: Millis = Millis(60_000);

    fn histogram(of: &[(u64, u64)]) -> AgeHistogram {
        let mut histogram = AgeHistogram::default();
        for &(age, pages) in of {
            histogram.add(Millis(age), Pages(pages));
        }
        histogram
    }

    #[test]
    fn pages_used_again_too_often_are_needed() {
        // 1,000 pages are used all the time, 500 sometimes, the others never.
        let ages = histogram(&[(0, 1000), (4096, 250), (8192, 250), (65_536, 8000)]);
        let back = histogram(&[(0, 9000), (4096, 400), (16_384, 3)]);
        let need_at = |rate| need(&ages, &back, (Rate(rate), MINUTE));
        // At 1% of 1,250 pages, 12 refaults are allowed: 3 pages were used again after 16 s, but
        // 400 more after 4 s.
        assert_eq!(need_at(10_000).pages, Pages(1250));
        assert_eq!(need_at(402_000).pages, Pages(1250));
        // 403 refaults in a minute are 40.3% of 1,000 pages.
        assert_eq!(need_at(403_000).pages, Pages(1000));
        // At this rate even three refaults are too many, so only pages that never refaulted may
        // leave.
        assert_eq!(need_at(100).pages, Pages(1500));
    }

    #[test]
    fn a_simple_search_finds_the_same() {
        let mut noise = Noise(1);
        let mut next = |below: u64| noise.below(below);
        for _ in 0..300 {
            let mut random_histogram = || {
                let mut histogram = AgeHistogram::default();
                for _ in 0..next(20) {
                    histogram.add(Millis(1 << next(20)), Pages(next(1000)));
                }
                histogram
            };
            let (ages, back) = (random_histogram(), random_histogram());
            let rate = Rate(next(500_000));
            let is_enough = |age: u64| {
                let stays = ages.younger_than(Millis(age));
                back.at_least(Millis(age)) <= rate.of(stays, MINUTE)
            };
            // The simple search tries only powers of two, because each bin edge in this test is
            // one.
            let lowest_enough = (0..21).rev().take_while(|at| is_enough(1 << at)).last();
            let expected =
                lowest_enough.map_or(ages.total(), |at| ages.younger_than(Millis(1 << at)));
            let found = need(&ages, &back, (rate, MINUTE)).pages;
            assert_eq!(found, expected, "{ages:?} {back:?} {rate}");
        }
    }

    #[test]
    fn the_limit_is_the_needed_size_and_pages_of_unknown_age() {
        let settings = FitSettings {
            warm_up: Millis(120_000),
            ..FitSettings::default()
        };
        let mut policy = Fit::new(settings, Millis(0));
        let input = Shown {
            ages: histogram(&[(0, 1000), (65_536, 8000)]),
            back: histogram(&[(0, 9000)]),
            usage: Pages(9100),
            ..Shown::default()
        };
        assert_eq!(policy.decide(&input.at(60_000)), None, "it warms up");
        assert_eq!(policy.limit(), Some(Pages(1100).bytes()));
        // The warm-up ends 50 ms early: otherwise the first order would be a minute late.
        let order = policy.decide(&input.at(119_950)).expect("it is over");
        assert_eq!(
            (order.most, order.older_than),
            (Pages(8000), Millis(65_536))
        );
    }
}
