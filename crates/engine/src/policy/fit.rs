//! `fit`: the smallest limit at which no more comes back than a share of what stays.
//!
//! A page that is used again after T is found in memory if all younger pages fit: so many pages as are younger than T are
//! the limit at which all that is used again sooner stays (the stack of LRU: what is evicted in order of age). Both
//! histograms tell of every T at once, without trying any: docs/policies.md.
//!
//! Invariant: the limit covers what the last window needed, and what so many of the past ones did; nothing leaves in the
//! warm-up. What has no known age counts as needed.

use super::AgeHistogram;
use super::pace::Pace;
use super::rate::Rate;
use super::seen::{Order, Seen};
use super::settings::FitSettings;
use super::why::Why;
use super::windows::Windows;
use crate::units::{Bytes, Millis, Pages};

/// Its state.
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

/// What a window needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    pages: Pages,
    /// They are younger than this.
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

    /// What is above this leaves; none yet.
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
        // It ends with a window: nothing leaves at any other look.
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

/// The fewest pages, those that are younger than some age, with which no more than the rate would have come back.
fn need(ages: &AgeHistogram, back: &AgeHistogram, (rate, lasted): (Rate, Millis)) -> Need {
    let mut found = Need {
        pages: ages.total(),
        younger_than: Millis(u64::MAX),
    };
    // From the highest age down: ever more comes back, and ever less stays.
    let mut edges: alloc::vec::Vec<Millis> =
        back.iter().chain(ages.iter()).map(|(at, _)| at).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut older, mut comes_back) = (Pages(0), Pages(0));
    let mut in_order = (ages.iter().rev().peekable(), back.iter().rev().peekable());
    let total = ages.total();
    for edge in edges.into_iter().rev() {
        if let Some((_, pages)) = in_order.0.next_if(|(at, _)| *at == edge) {
            older.0 += pages.0;
        }
        if let Some((_, pages)) = in_order.1.next_if(|(at, _)| *at == edge) {
            comes_back.0 += pages.0;
        }
        let stays = total.less(older);
        if comes_back > rate.of(stays, lasted) {
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
    fn what_is_used_again_too_often_is_needed() {
        // 1,000 pages are used all the time, 500 now and then, the rest never.
        let ages = histogram(&[(0, 1000), (4096, 250), (8192, 250), (65_536, 8000)]);
        let back = histogram(&[(0, 9000), (4096, 400), (16_384, 3)]);
        let of = |rate| need(&ages, &back, (Rate(rate), MINUTE));
        // Of what comes back after 4 s 400 are too many, of what does after 16 s three are not: 1% of 1,250 are 12.
        assert_eq!(of(10_000).pages, Pages(1250));
        assert_eq!(of(402_000).pages, Pages(1250));
        // 403 of 1,000 a minute are 40.3%.
        assert_eq!(of(403_000).pages, Pages(1000));
        // Three are too many; what is older than that never came back.
        assert_eq!(of(100).pages, Pages(1500));
    }

    #[test]
    fn a_naive_search_finds_the_same() {
        let mut noise = Noise(1);
        let mut next = |below: u64| noise.below(below);
        for _ in 0..300 {
            let mut some = || {
                let mut histogram = AgeHistogram::default();
                for _ in 0..next(20) {
                    histogram.add(Millis(1 << next(20)), Pages(next(1000)));
                }
                histogram
            };
            let (ages, back) = (some(), some());
            let rate = Rate(next(500_000));
            let ok = |age: u64| {
                let stays = ages.younger_than(Millis(age));
                back.at_least(Millis(age)) <= rate.of(stays, MINUTE)
            };
            // The lowest power of two from which on all are right; each edge is one.
            let lowest = (0..21).rev().take_while(|at| ok(1 << at)).last();
            let naive = lowest.map_or(ages.total(), |at| ages.younger_than(Millis(1 << at)));
            let found = need(&ages, &back, (rate, MINUTE)).pages;
            assert_eq!(found, naive, "{ages:?} {back:?} {rate}");
        }
    }

    #[test]
    fn the_limit_is_what_is_needed_and_what_has_no_age() {
        let settings = FitSettings {
            warm_up: Millis(120_000),
            ..FitSettings::default()
        };
        let mut policy = Fit::new(settings, Millis(0));
        let shown = Shown {
            ages: histogram(&[(0, 1000), (65_536, 8000)]),
            back: histogram(&[(0, 9000)]),
            usage: Pages(9100),
            ..Shown::default()
        };
        assert_eq!(policy.decide(&shown.at(60_000)), None, "it warms up");
        assert_eq!(policy.limit(), Some(Pages(1100).bytes()));
        // A hair before the end: the next window would be a minute late.
        let order = policy.decide(&shown.at(119_950)).expect("it is over");
        assert_eq!(
            (order.most, order.older_than),
            (Pages(8000), Millis(65_536))
        );
    }
}
