//! Progress towards a pending limit: whether reclaimed memory refaults, and so by how much the
//! group may grow meanwhile.
//!
//! Invariant: the headroom of the group becomes smaller each time that reclaimed memory refaults,
//! and larger when usage is lower than ever before.

use engine::Pages;

/// Number of pages to reclaim below the limit: fewer than this refault before the limit is written.
const SPARE: Pages = Pages(256);
/// Headroom of a group while its limit is pending, in bytes: while reclaimed memory stays swapped
/// out (as in `hard_limit::PendingLimits`), then after reclaimed memory refaulted once.
const ROOMS: [u64; 2] = [32 << 20, 8 << 20];

/// A request that the kernel reclaim from a tenant, and its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelReclaimRequest {
    /// Number of scans when the request was made.
    pub(super) scan: u64,
    /// Usage before the request; then the number of pages reclaimed.
    pub(super) used: Pages,
    pub(super) got: Pages,
}

impl KernelReclaimRequest {
    /// Whether the reclaimed memory has refaulted, at this usage: most of it is in use.
    pub(super) fn is_back(&self, used: Pages) -> bool {
        used.0 + self.got.0 / 2 > self.used.0
    }

    /// Whether another request is worth it. `scan` is the number of scans until now, `used` the
    /// usage. If the reclaimed memory refaults at once, one request for each scan is enough. If it
    /// stays swapped out, another request is worth it.
    pub(super) fn may_repeat(&self, scan: u64, used: Pages) -> bool {
        self.scan != scan || (self.got > Pages(0) && !self.is_back(used))
    }
}

/// Returns how many pages the kernel must reclaim from a tenant that has `used` pages.
///
/// For a pending memory.max, these are the pages above the limit and [`SPARE`] more. For a `high`
/// that the kernel does not enforce (version 1), they are the shared pages that proactive reclaim
/// skipped (`shared`), at most the pages above the limit.
pub(super) fn above_limits(
    used: Pages,
    pending_max: Option<Pages>,
    high: Option<Pages>,
    shared: impl FnOnce() -> Pages,
) -> Pages {
    let above_max = match pending_max.map_or(Pages(0), |max| used.less(max)) {
        Pages(0) => Pages(0),
        above => Pages(above.0 + SPARE.0),
    };
    let above_high = high.map_or(Pages(0), |high| used.less(high).min(shared()));
    above_max.max(above_high)
}

/// Whether memory that is reclaimed for a pending limit stays swapped out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingLimitProgress {
    /// The lowest usage since the limit became pending.
    least: Option<Pages>,
    /// Grows by 1 at each reclaim after which usage was not lower than before, and falls by 1 at
    /// each one after which it was.
    back: usize,
}

impl PendingLimitProgress {
    /// Records the usage after a reclaim.
    pub(super) fn note(&mut self, used: Pages) {
        match self.least.is_some_and(|least| used.0 + SPARE.0 > least.0) {
            true => self.back = (self.back + 1).min(ROOMS.len()),
            false => (self.least, self.back) = (Some(used), self.back.saturating_sub(1)),
        }
    }

    /// Returns the headroom of the group in bytes; `None` if reclaimed memory refaults again and
    /// again, so that the group may not grow at all.
    pub(super) fn room(&self) -> Option<u64> {
        ROOMS.get(self.back).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: most of a database is shared memory that several processes map. Page-out by
    /// process (MADV_PAGEOUT) skips such pages, so the usage stayed above the limit, which was
    /// never set.
    #[test]
    fn the_kernel_reclaims_what_is_above_a_limit_that_it_does_not_enforce() {
        let of = |max: Option<u64>, high: Option<u64>| {
            let shared = || Pages(30);
            above_limits(Pages(1000), max.map(Pages), high.map(Pages), shared).0
        };
        assert_eq!(of(None, None), 0);
        assert_eq!((of(Some(900), None), of(Some(1000), None)), (356, 0));
        // For memory.high only as much as is known to be skipped.
        assert_eq!([of(None, Some(900)), of(None, Some(990))], [30, 10]);
        assert_eq!(of(Some(999), Some(500)), 257);
        let never = || -> Pages { unreachable!("there is no such limit") };
        assert_eq!(
            above_limits(Pages(5), Some(Pages(9)), None, never),
            Pages(0)
        );
    }

    /// Memory in use refaults at once, and another request would only take it again.
    #[test]
    fn a_request_whose_memory_refaults_is_repeated_once_a_scan() {
        let last = KernelReclaimRequest {
            scan: 4,
            used: Pages(1000),
            got: Pages(100),
        };
        for (used, is_back) in [(900, false), (950, false), (951, true), (1200, true)] {
            assert_eq!(last.is_back(Pages(used)), is_back, "{used}");
            assert_eq!(last.may_repeat(4, Pages(used)), !is_back, "{used}");
            assert!(last.may_repeat(5, Pages(used)), "{used}");
        }
        let nothing = KernelReclaimRequest {
            got: Pages(0),
            ..last
        };
        assert!(!nothing.may_repeat(4, Pages(900)) && nothing.may_repeat(5, Pages(900)));
    }

    /// Regression: while the usage was above a lowered limit, no limit was set at all, so a tenant
    /// that grew faster than pagetide reclaimed grew on.
    #[test]
    fn headroom_is_bounded_from_the_first_reclaim_on() {
        let mut closing = PendingLimitProgress::default();
        assert_eq!(closing.room(), Some(32 << 20));
        // Usage that falls step by step keeps the full headroom.
        (1..100).for_each(|step| closing.note(Pages(100_000 - step * 300)));
        assert_eq!(closing.room(), Some(32 << 20));
    }

    #[test]
    fn headroom_shrinks_when_reclaimed_memory_comes_back() {
        let mut closing = PendingLimitProgress::default();
        let mib = |mib: u64| Pages(mib * 256);
        let rooms = [40, 40, 40, 40, 38, 38, 30, 20].map(|used| {
            closing.note(mib(used));
            closing.room().map_or(0, |room| room >> 20)
        });
        // When usage is lower than ever before, the headroom becomes larger.
        assert_eq!(rooms, [32, 8, 0, 0, 8, 0, 8, 32]);
    }
}
