//! The policy `cold-age`: once in each period (`every`), pages out the pages that were not used for
//! `older-than`.
//! spec: workingset-report.md 8, 9.
//!
//! Invariant: no page younger than `older-than` is paged out; unmapped page cache is dropped only
//! if configured.

use super::seen::{Order, Seen};
use super::settings::ColdAgeSettings;
use super::why::Why;
use crate::units::{Millis, Pages};

/// State of the policy `cold-age` for one tenant.
#[derive(Clone, Debug)]
pub(super) struct ColdAge {
    pub(super) settings: ColdAgeSettings,
    next: Millis,
}

impl ColdAge {
    /// Creates the policy. It needs its first input after `older-than` (or `cache-older-than`, if
    /// less): before that, no page can be so old.
    pub(super) const fn new(settings: ColdAgeSettings, now: Millis) -> Self {
        Self {
            settings,
            next: now.after(settings.least()),
        }
    }

    /// Returns the time at which the policy needs its next input.
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
        // A histogram rounds ages down, so a page may be older than its bin says; reclaim compares
        // the exact age of each page.
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
    fn colder_pages_are_ordered_out_every_period() {
        let settings = ColdAgeSettings {
            older_than: Millis(10_000),
            every: Millis(40_000),
            ..ColdAgeSettings::default()
        };
        let mut policy = ColdAge::new(settings, Millis(0));
        let mut input = Shown::default();
        input.ages.add(Millis(20_000), Pages(7));
        let mut ordered = |now| policy.decide(&input.at(now)).map(|order| order.older_than);
        assert_eq!(ordered(9_000), None);
        assert_eq!(ordered(10_000), Some(Millis(10_000)));
        assert_eq!(ordered(49_000), None);
        assert_eq!(ordered(55_000), Some(Millis(10_000)));
        // A late input does not delay the next one: 50 s plus 40 s.
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
        let mut input = Shown::default();
        input.ages.add(Millis(9_000), Pages(7));
        input.cache.add(Millis(90_000), Pages(9));
        assert_eq!(policy.decide(&input.at(20_000)), None);
    }

    #[test]
    fn page_cache_is_dropped_only_if_configured_and_by_its_own_age() {
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
        let mut input = Shown::default();
        input.cache.add(Millis(20_000), Pages(9));
        let order = policy.decide(&input.at(15_000)).expect("cache is cold");
        assert_eq!((order.most, order.cache), (Pages(0), Pages(9)));
        let mut policy = ColdAge::new(settings, Millis(0));
        assert_eq!(policy.decide(&input.at(20_000)), None);
        input.cache.add(Millis(40_000), Pages(5));
        let order = policy.decide(&input.at(30_000)).expect("cache is cold");
        assert_eq!((order.most, order.cache), (Pages(0), Pages(5)));
        input.ages.add(Millis(10_000), Pages(1));
        let order = policy.decide(&input.at(40_000)).expect("all is cold");
        assert_eq!((order.most, order.cache), (Pages(u64::MAX), Pages(5)));
    }
}
