//! Decides what is done ahead of a limit that the kernel enforces.
//!
//! Invariant: only idle pages and unmapped page cache leave ahead of the limit. All else is left to
//! the kernel's reclaim at the limit: more reclaim by us beside the running program takes twice the
//! processor time and makes no program faster (docs/benchmarks.md, Beside the kernel). The manager
//! calls this after each measurement of usage.

use std::time::Duration;

use engine::Pages;

/// Unmapped page cache is preferred for reclaim if it is at least `usage / PREFERRED`. A smaller
/// cache is mostly the program's own text, read a moment ago. When the kernel dropped that, the
/// program read it again: sqlite with half of its memory took a sixth more time.
const PREFERRED: u64 = 16;
/// Number of scan intervals for which a page must be idle to be reclaimed ahead of the limit.
const IDLE_SCANS: u32 = 3;

/// What is done now.
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
