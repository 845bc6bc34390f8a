//! `cold-age`: what was not used for T leaves, every P. spec: workingset-report.md 8, 9.
//!
//! Invariant: nothing younger than T leaves, whatever was seen; page cache that nobody maps only where that was asked for.

use super::seen::{Order, Seen};
use super::settings::ColdAgeSettings;
use super::why::Why;
use crate::units::{Millis, Pages};

/// Its state.
#[derive(Clone, Debug)]
pub(super) struct ColdAge {
    pub(super) settings: ColdAgeSettings,
    next: Millis,
}

impl ColdAge {
    /// Nothing can be older than T before T has passed, nor page cache before its own.
    pub(super) const fn new(settings: ColdAgeSettings, now: Millis) -> Self {
        Self {
            settings,
            next: now.after(settings.least()),
        }
    }

    /// When it is to be shown something again.
    pub(super) const fn due(&self) -> Millis {
        self.next
    }

    pub(super) fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        let ColdAgeSettings {
            older_than,
            every,
            cache_older_than,
        } = self.settings;
        if seen.now < self.next {
            return None;
        }
        self.next = self.next.after(every).max(seen.now);
        // Ages are no higher than claimed, so what is here by a hair is asked for by the page.
        let has_cold = seen.ages.at_least(older_than) > Pages(0);
        let cache = match cache_older_than {
            Millis(0) => Pages(0),
            age => seen.cache.at_least(age),
        };
        (has_cold || cache > Pages(0)).then_some(Order {
            older_than,
            most: Pages(if has_cold { u64::MAX } else { 0 }),
            cache,
            why: Why::ColdAge { older_than, every },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Shown;
    use super::*;

    #[test]
    fn what_is_colder_than_told_leaves_every_so_often() {
        let settings = ColdAgeSettings {
            older_than: Millis(10_000),
            every: Millis(40_000),
            ..ColdAgeSettings::default()
        };
        let mut policy = ColdAge::new(settings, Millis(0));
        let mut shown = Shown::default();
        shown.ages.add(Millis(20_000), Pages(7));
        let mut ordered = |now| policy.decide(&shown.at(now)).map(|order| order.older_than);
        assert_eq!(ordered(9_000), None);
        assert_eq!(ordered(10_000), Some(Millis(10_000)));
        assert_eq!(ordered(49_000), None);
        assert_eq!(ordered(55_000), Some(Millis(10_000)));
        // Late once is not late for ever.
        assert_eq!(ordered(90_000), Some(Millis(10_000)));
    }

    #[test]
    fn where_nothing_is_cold_nothing_is_ordered() {
        let settings = ColdAgeSettings {
            older_than: Millis(10_000),
            every: Millis(40_000),
            ..ColdAgeSettings::default()
        };
        let mut policy = ColdAge::new(settings, Millis(0));
        let mut shown = Shown::default();
        shown.ages.add(Millis(9_000), Pages(7));
        shown.cache.add(Millis(90_000), Pages(9));
        assert_eq!(policy.decide(&shown.at(20_000)), None);
    }

    #[test]
    fn page_cache_goes_where_it_was_asked_for_alone_and_by_its_own_age() {
        let settings = ColdAgeSettings {
            older_than: Millis(10_000),
            every: Millis(1_000),
            cache_older_than: Millis(30_000),
        };
        let sooner = ColdAgeSettings {
            older_than: Millis(60_000),
            cache_older_than: Millis(10_000),
            ..settings
        };
        let mut policy = ColdAge::new(sooner, Millis(0));
        let mut shown = Shown::default();
        shown.cache.add(Millis(20_000), Pages(9));
        let order = policy.decide(&shown.at(15_000)).expect("cache is cold");
        assert_eq!((order.most, order.cache), (Pages(0), Pages(9)));
        let mut policy = ColdAge::new(settings, Millis(0));
        assert_eq!(policy.decide(&shown.at(20_000)), None);
        shown.cache.add(Millis(40_000), Pages(5));
        let order = policy.decide(&shown.at(30_000)).expect("cache is cold");
        assert_eq!((order.most, order.cache), (Pages(0), Pages(5)));
        shown.ages.add(Millis(10_000), Pages(1));
        let order = policy.decide(&shown.at(40_000)).expect("all is cold");
        assert_eq!((order.most, order.cache), (Pages(u64::MAX), Pages(5)));
    }
}
