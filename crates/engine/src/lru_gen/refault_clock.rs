//! The refault clock: measures, by counting evictions, how long ago a page was evicted. A lruvec
//! has it if scans open its generations.
//!
//! A kernel opens a generation when reclaim needs one. So the number of generations opened since a
//! page was evicted measures how much was evicted since. Periodic scans open generations whether or
//! not reclaim needs them: after four scans no refault would be recent, and the refault controller
//! would never learn that it evicts the wrong type. This clock counts evicted pages instead, as the
//! classic LRU does (workingset.md 3).
//!
//! The *size* of a tenant is here the largest number of pages that it had in memory since the last
//! fold but one. So a tenant that was paged out as a whole keeps its size.
//!
//! Invariant: the clock never goes back; the controller's counts are folded into its averages each
//! time that as many pages as the tenant's size have been evicted.

use super::{LRU_REFS_WIDTH, MAX_NR_GENS, MIN_LRU_BATCH};
use crate::units::Pages;
use crate::word::TOKEN_BITS;
use crate::workingset::EvictionClock;

/// How a token stores the clock: evictions are counted in units of 64 pages, so that distances of
/// up to 256 GiB fit before the number wraps.
const STORED: EvictionClock = {
    let bits = TOKEN_BITS - LRU_REFS_WIDTH;
    EvictionClock::new(bits, Pages((MIN_LRU_BATCH as u64) << bits))
};

/// Count of evictions of one lruvec, of both types.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefaultClock {
    /// Pages evicted so far.
    evicted: u64,
    /// Value of `evicted` when the controller's counts were last folded.
    folded_at: u64,
    /// Largest number of pages in memory at an eviction since the last fold.
    peak: u64,
    /// The peak between the last two folds.
    last_peak: u64,
    /// Number of pages that aging moved and that counted as protected, since the last fold.
    aged: u64,
}

impl RefaultClock {
    /// Returns the clock's time in units of 64 evicted pages, before the wrap that stamps have.
    pub(super) const fn time(self) -> u64 {
        self.evicted / MIN_LRU_BATCH as u64
    }

    /// Returns the stamp that the next evicted page's token stores.
    pub(super) const fn stamp(self) -> u64 {
        STORED.stamp(self.evicted)
    }

    /// Counts one eviction. Returns whether the controller's counts must be folded now. `resident`
    /// is the number of pages in memory.
    pub(super) fn advance(&mut self, resident: Pages) -> bool {
        self.evicted += 1;
        self.peak = self.peak.max(resident.0);
        let folds = self.evicted - self.folded_at >= self.size(resident);
        if folds {
            (self.folded_at, self.aged) = (self.evicted, 0);
            self.last_peak = core::mem::replace(&mut self.peak, resident.0);
        }
        folds
    }

    /// Counts a page that aging moves as protected. Returns false, and does not count it, if since
    /// the last fold aging has counted four times the tenant's size (once a page and generation).
    pub(super) fn count_aged(&mut self, resident: Pages) -> bool {
        let counts = self.aged < self.size(resident) * MAX_NR_GENS;
        self.aged += u64::from(counts);
        counts
    }

    /// Returns whether at most as many pages as the tenant's size were evicted since `stamp` was
    /// taken: with twice the memory, the page would have stayed.
    pub(super) fn is_recent(self, stamp: u64, resident: Pages) -> bool {
        STORED.distance(self.evicted, stamp) <= self.size(resident)
    }

    /// Returns the tenant's size in pages, at least 64 (the unit of a stamp).
    fn size(self, resident: Pages) -> u64 {
        let peak = self.peak.max(self.last_peak);
        resident.0.max(peak).max(MIN_LRU_BATCH as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_page_is_recent_until_as_many_were_evicted_as_are_in_memory() {
        let mut clock = RefaultClock::default();
        let (stamp, resident) = (clock.stamp(), Pages(1000));
        let folds = (0..1000).filter(|_| clock.advance(resident)).count();
        assert!(clock.is_recent(stamp, resident));
        assert_eq!(folds, 1);
        (0..MIN_LRU_BATCH).for_each(|_| _ = clock.advance(resident));
        assert!(!clock.is_recent(stamp, resident));
    }

    /// Regression: a tenant of 10,000 pages was paged out as a whole. Its size was taken to be the
    /// pages still in memory. So the averages were halved eight times, and no refault, however
    /// soon, was recent.
    #[test]
    fn a_tenant_that_is_paged_out_as_a_whole_keeps_its_size() {
        let mut clock = RefaultClock::default();
        (0..10_000).for_each(|_| _ = clock.advance(Pages(10_000)));
        let before = clock.stamp();
        let mut stamps = Vec::new();
        let folds = (0..10_000).filter(|&evicted| {
            stamps.push(clock.stamp());
            clock.advance(Pages(9999 - evicted))
        });
        assert!(folds.count() <= 1);
        let mut later = stamps.into_iter().skip(64);
        assert!(later.all(|stamp| clock.is_recent(stamp, Pages(0))));
        assert!(!clock.is_recent(before, Pages(0)));
    }

    /// A stamp counts 64 pages as one, and wraps after 2^26 pages.
    #[test]
    fn stamps_err_by_less_than_a_batch() {
        for evicted in [0, 63, 64, 1000, (1 << 26) - 1, (1 << 26) + 5] {
            let resident = Pages(640);
            let then = RefaultClock {
                evicted,
                ..RefaultClock::default()
            };
            for (since, recent) in [(0, true), (576, true), (640 + 64, false)] {
                let now = RefaultClock {
                    evicted: evicted + since,
                    ..then
                };
                let is_recent = now.is_recent(then.stamp(), resident);
                assert_eq!(is_recent, recent, "{evicted}, {since}");
            }
        }
    }
}
