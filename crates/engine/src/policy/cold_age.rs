//! `cold-age`: what was not used for T leaves, every P. spec: workingset-report.md 8, 9.
//!
//! Invariant: nothing younger than T leaves, whatever was seen.

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
    /// Nothing can be older than T before T has passed.
    pub(super) const fn new(settings: ColdAgeSettings, now: Millis) -> Self {
        Self {
            settings,
            next: now.after(settings.older_than),
        }
    }

    /// When it is to be shown something again.
    pub(super) const fn due(&self) -> Millis {
        self.next
    }

    pub(super) fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        let ColdAgeSettings { older_than, every } = self.settings;
        if seen.now < self.next {
            return None;
        }
        self.next = self.next.after(every).max(seen.now);
        // Ages are no higher than claimed, so what is here by a hair is asked for by the page.
        (seen.ages.at_least(older_than) > Pages(0)).then_some(Order {
            older_than,
            most: Pages(u64::MAX),
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
        };
        let mut policy = ColdAge::new(settings, Millis(0));
        let mut shown = Shown::default();
        shown.ages.add(Millis(9_000), Pages(7));
        assert_eq!(policy.decide(&shown.at(20_000)), None);
    }
}
