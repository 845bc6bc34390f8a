//! Decides which pages are activated before the kernel reclaims from a group, and how much
//! processor time that may take ([`super::activation`]).
//!
//! Invariant: as many older pages as the kernel is to reclaim are left inactive. Processor time
//! that an activation has used is subtracted from the budget.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Millis, Pages};

/// Activations may take 1 / `SHARE` of a processor; unused time is saved up to `SAVED_MAX`.
const SHARE: u32 = 50;
const SAVED_MAX: Duration = Duration::from_millis(250);
/// Minimum time that is worth an activation.
const LEAST: Duration = Duration::from_millis(2);

/// The processor time that activations may still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    saved: Duration,
    /// Up to when `saved` was counted.
    as_of: Millis,
}

impl Budget {
    pub(super) const fn new() -> Budget {
        Budget {
            saved: SAVED_MAX,
            as_of: Millis(0),
        }
    }

    /// Returns the time that one activation may take now; `None` if it is too little to begin.
    pub(super) fn left(&mut self, now: Millis) -> Option<Duration> {
        let passed = Duration::from_millis(now.since(self.as_of).0);
        self.saved = (self.saved + passed / SHARE).min(SAVED_MAX);
        self.as_of = now;
        (self.saved >= LEAST).then_some(self.saved)
    }

    /// Subtracts the time that an activation took.
    pub(super) fn spend(&mut self, took: Duration) {
        self.saved = self.saved.saturating_sub(took);
    }
}

/// Returns from when on a page must have been accessed to be activated, if the kernel is to find
/// `requested` older pages. `pages` are the pages by the time of their last access; the oldest
/// `gone` of them have left memory since they were counted. Leaves twice as many pages to the
/// kernel if there are, so that fewer pages have to be read.
///
/// `None` if hardly any page is older than the youngest ones. Then all pages are in use, the kernel
/// has to take some of these, and to activate them all would only cost time.
fn in_use_since(pages: &BTreeMap<u64, u64>, requested: Pages, gone: Pages) -> Option<u64> {
    let since = |wanted: u64| {
        let mut older = 0;
        pages.iter().find_map(|(last, count)| {
            let is_enough = older >= wanted + gone.0;
            older += count;
            is_enough.then_some(*last)
        })
    };
    let (youngest, _) = pages.last_key_value()?;
    since(requested.0 * 2)
        .or_else(|| since(requested.0))
        .or_else(|| since(requested.0 / 2).map(|_| *youngest))
}

/// Returns from when on a page must have been accessed to be activated ([`in_use_since`]). `None`
/// if hardly any page was last accessed before `idle_before`: then the kernel must take pages in
/// use, and would find nothing if all of them were active.
pub(super) fn activated_since(
    pages: &BTreeMap<u64, u64>,
    (requested, gone): (Pages, Pages),
    idle_before: Millis,
) -> Option<u64> {
    let idle: u64 = pages.range(..idle_before.0).map(|(_, pages)| pages).sum();
    match idle < requested.0 / 2 + gone.0 {
        true => None,
        false => in_use_since(pages, requested, gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_finds_what_was_requested_among_older_pages() {
        let pages = BTreeMap::from([(10, 100), (500, 20), (600, 40), (1000, 100)]);
        let since = |requested| in_use_since(&pages, Pages(requested), Pages(0));
        assert_eq!(since(50), Some(500), "twice as many are older");
        assert_eq!(since(60), Some(600), "exactly twice as many");
        assert_eq!(since(80), Some(1000));
        assert_eq!(since(160), Some(1000), "just as many are older");
        assert_eq!(since(300), Some(1000), "only the youngest are in use");
        assert_eq!(since(330), None, "all of it is in use");
        let gone = |gone| in_use_since(&pages, Pages(20), Pages(gone));
        assert_eq!(
            [gone(60), gone(80)],
            [Some(500), Some(600)],
            "the oldest are gone"
        );
        assert_eq!(in_use_since(&BTreeMap::new(), Pages(1), Pages(0)), None);
        let same = BTreeMap::from([(1000, 100)]);
        assert_eq!(in_use_since(&same, Pages(40), Pages(0)), None);
    }

    #[test]
    fn activations_take_a_small_share_of_the_time() {
        let (mut budget, ms) = (Budget::new(), Duration::from_millis);
        assert_eq!(budget.left(Millis(5)), Some(SAVED_MAX));
        budget.spend(ms(1000));
        assert_eq!(budget.left(Millis(5)), None);
        assert_eq!(budget.left(Millis(104)), None, "less than 2 ms are saved");
        assert_eq!(budget.left(Millis(1005)), Some(ms(20)));
        budget.spend(ms(5));
        assert_eq!(budget.left(Millis(1005)), Some(ms(15)));
        assert_eq!(budget.left(Millis(1_000_000)), Some(SAVED_MAX));
    }

    /// Where all pages are in use, to activate them only costs time, and the kernel finds nothing.
    #[test]
    fn nothing_is_activated_where_hardly_any_page_is_idle() {
        let pages = BTreeMap::from([(10, 100), (500, 20), (1000, 100)]);
        let since = |requested, gone, idle_before| {
            let amount = (Pages(requested), Pages(gone));
            activated_since(&pages, amount, Millis(idle_before))
        };
        assert_eq!(since(50, 0, 11), Some(500));
        assert_eq!(since(200, 0, 11), Some(1000), "half of it is idle");
        assert_eq!(since(202, 0, 11), None);
        assert_eq!(since(50, 80, 11), None, "what was idle is gone");
        assert_eq!(since(50, 0, 10), None, "none is idle");
    }
}
