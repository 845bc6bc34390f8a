//! Decides what is done for a limit, and ahead of one that the kernel enforces, by a measurement of
//! usage.
//!
//! Invariant: what the kernel frees at no cost leaves first. For a single target with a hard limit,
//! only idle pages and unmapped page cache leave ahead of the limit. All else is left to
//! the kernel's reclaim at the limit: more reclaim by us beside the running program takes twice the
//! processor time and makes no program faster (docs/benchmarks.md, Beside the kernel). The manager
//! calls this after each measurement.

use std::time::Duration;

use engine::Pages;

/// Unmapped page cache is preferred for reclaim if it is at least `usage / PREFERRED`. A smaller
/// cache is mostly the program's own text, read a moment ago. When the kernel dropped that, the
/// program read it again: sqlite with half of its memory took a sixth more time.
const PREFERRED: u64 = 16;
/// Number of scan intervals for which a page must be idle to be reclaimed ahead of the limit.
const IDLE_SCANS: u32 = 3;

/// What is done for a limit after a measurement of usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimitOrder {
    /// Nothing until the next measurement.
    Wait,
    /// The manager requests that the kernel free memory at no cost. If hardly any memory is freed,
    /// the engine reclaims.
    DropFirst,
    /// The engine reclaims this many pages.
    Reclaim(Pages),
}

impl LimitOrder {
    /// Decides by two numbers: the pages above the point at which reclaim ends (`wanted`), and the
    /// pages that the kernel can free at no cost (`free`). If the kernel enforces the limit
    /// (`is_enforced`), it frees those pages without a request.
    pub(super) fn of(wanted: Pages, free: Pages, is_enforced: bool) -> LimitOrder {
        match wanted.less(free) {
            Pages(0) if wanted == Pages(0) || is_enforced => LimitOrder::Wait,
            Pages(0) => LimitOrder::DropFirst,
            pages => LimitOrder::Reclaim(pages),
        }
    }
}

/// What is done ahead of a limit that the kernel enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ahead {
    /// Whether the kernel takes page cache first from now on; `None` for no change.
    pub(super) prefers_cache: Option<bool>,
    /// Maximum number of idle pages to reclaim.
    pub(super) idle: Pages,
}

impl Ahead {
    /// Decides by the number of pages that must leave (`wanted`) and by the page cache that the
    /// kernel drops before it takes other memory ([`cache_to_drop`]).
    pub(super) fn of(wanted: Pages, cache: Pages) -> Ahead {
        let idle = wanted.less(cache);
        let decides = wanted > Pages(0) || cache == Pages(0);
        Ahead {
            prefers_cache: decides.then_some(idle == Pages(0) && cache > Pages(0)),
            idle,
        }
    }
}

/// Returns the part of the `unmapped` page cache that the kernel drops before it takes other
/// memory, at this usage: all or nothing.
///
/// Every program has some cache of its own text, about as much as must leave at a time (half a
/// percent of the limit). If that counted, nothing else would ever leave before the program meets
/// the limit. `files_in_use_are_dropped` reads counters of the kernel, so it is called only if the
/// answer depends on it.
pub(super) fn cache_to_drop(
    unmapped: Pages,
    usage: Pages,
    files_in_use_are_dropped: impl FnOnce() -> bool,
) -> Pages {
    match unmapped.0 * PREFERRED >= usage.0 && !files_in_use_are_dropped() {
        true => unmapped,
        false => Pages(0),
    }
}

/// Returns the time for which a page must be idle to be reclaimed ahead of the limit.
pub(super) fn idle_age(scan_interval: Duration) -> Duration {
    scan_interval * IDLE_SCANS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_pages_leave_for_what_the_cache_does_not_cover() {
        let of = |wanted, cache| {
            let ahead = Ahead::of(Pages(wanted), Pages(cache));
            (ahead.prefers_cache, ahead.idle.0)
        };
        assert_eq!(of(100, 0), (Some(false), 100));
        assert_eq!(of(100, 30), (Some(false), 70));
        assert_eq!(of(100, 100), (Some(true), 0));
        assert_eq!(of(100, 5000), (Some(true), 0));
    }

    /// Regression: the usage above a lowered limit was page cache, which the kernel was to drop at
    /// `memory.max`. But `memory.max` was not set, because too much was charged. The tenant was
    /// reported as limited, and grew without end.
    #[test]
    fn the_kernel_must_drop_cache_where_no_limit_makes_it_do_so() {
        let of = |free, is_enforced| LimitOrder::of(Pages(100), Pages(free), is_enforced);
        assert_eq!(of(100, true), LimitOrder::Wait);
        assert_eq!(of(100, false), LimitOrder::DropFirst);
        assert_eq!(of(5000, false), LimitOrder::DropFirst);
        for is_enforced in [true, false] {
            assert_eq!(of(40, is_enforced), LimitOrder::Reclaim(Pages(60)));
            let below = LimitOrder::of(Pages(0), Pages(40), is_enforced);
            assert_eq!(below, LimitOrder::Wait);
        }
    }

    /// Cache stays preferred until there is none: the measurement after it was dropped finds the
    /// usage below the limit.
    #[test]
    fn cache_stays_preferred_until_it_is_gone() {
        assert_eq!(Ahead::of(Pages(0), Pages(500)).prefers_cache, None);
        assert_eq!(Ahead::of(Pages(0), Pages(0)).prefers_cache, Some(false));
    }

    #[test]
    fn cache_counts_from_a_sixteenth_of_the_usage_on() {
        let of = |unmapped, dropped| cache_to_drop(Pages(unmapped), Pages(1600), || dropped).0;
        assert_eq!((of(99, false), of(100, false), of(100, true)), (0, 100, 0));
        assert_eq!(idle_age(Duration::from_secs(10)), Duration::from_secs(30));
    }
}
