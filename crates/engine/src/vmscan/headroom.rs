//! Headroom: by how many pages a tenant is below its limits, how many must be reclaimed, and when a
//! host measures usage next.
//!
//! Reclaim begins below the limit, so that the program rarely reaches its hard limit. A host passes
//! measured usage; the simulator passes the usage of its machine.
//!
//! Invariant: this module reads no clock. The caller measures usage again when the returned time
//! has passed.

use super::Watermarks;
use crate::units::{Limit, Pages};
use core::time::Duration;

/// Distance between two watermarks, in ten-thousandths of the limit. The lowest watermark is zero
/// free pages: pages kept free would be memory that the program cannot use.
///
/// With a reserve as the kernel's and a distance of 100, the program had 2.4% less memory than
/// under the kernel alone, and refaulted 5% more pages. With a distance of 25 the manager needs
/// half of the processor time (docs/benchmarks.md). If the program allocates faster than the
/// manager reclaims, the hard limit of its cgroup applies.
const SCALE: u64 = 25;
/// Number of bytes of new memory that a program on one processor can touch in a second, at most.
const MAX_BYTES_PER_SECOND: u64 = 2 << 30;
/// Minimum, then maximum time between two measurements of the usage.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));
/// Time until the next measurement after four successive reclaims that reclaimed hardly any page.
/// Each further such reclaim doubles the time, up to 32 times this constant.
const PAUSE_AFTER_VAIN_RECLAIMS: Duration = Duration::from_millis(100);

/// Maximum number of pages to reclaim after one measurement of usage.
pub const PAGES_PER_MEASUREMENT: u64 = 8192;
/// If usage grows by more than this number of pages between two measurements, earlier vain reclaims
/// no longer delay the next measurement.
const GROWTH: u64 = 256;

/// The last measured usage, and the success of recent reclaims. Both decide when usage is measured
/// next.
#[derive(Debug, Default)]
pub struct Headroom {
    /// Usage at the last measurement.
    usage: Pages,
    /// Number of measurements since usage last grew.
    still: u32,
    /// Number of successive reclaims that reclaimed hardly any page.
    vain: u32,
}

/// What the limits of a tenant require at its present usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Number of pages that must be reclaimed.
    pub pages: Pages,
    /// Number of pages by which the tenant may grow before reclaim begins, for the nearest limit.
    pub left: Pages,
}

impl Headroom {
    /// Returns what the limits `max` and `high` require at this usage; `None` if there is no limit.
    #[must_use]
    pub fn wanted((max, high): (Limit, Limit), usage: Pages) -> Option<Wanted> {
        let mut nearest: Option<Wanted> = None;
        let marks = match max {
            Limit::Max => None,
            limit => {
                let max = limit.pages();
                let marks = Watermarks::new(max, Pages(0), SCALE);
                Some((max.less(marks.low), max.less(marks.high)))
            }
        };
        let high = match high {
            Limit::Max => None,
            limit => Some((limit.pages(), limit.pages())),
        };
        for (begin, end) in marks.into_iter().chain(high) {
            let required = match usage > begin {
                true => Wanted {
                    pages: usage.less(end),
                    left: Pages(0),
                },
                false => Wanted {
                    pages: Pages(0),
                    left: begin.less(usage),
                },
            };
            let other = nearest.unwrap_or(required);
            nearest = Some(Wanted {
                pages: required.pages.max(other.pages),
                left: required.left.min(other.left),
            });
        }
        nearest
    }

    /// Returns the time until usage must be measured again: half the time in which a program could
    /// use up `left` pages of headroom; longer if usage does not grow.
    pub fn pause(&mut self, usage: Pages, left: Pages) -> Duration {
        self.still = if usage > self.usage {
            0
        } else {
            self.still.saturating_add(1)
        };
        if usage.0 > self.usage.0 + GROWTH {
            self.vain = 0;
        }
        self.usage = usage;
        // Saturating, because petabytes of headroom are more microseconds than 64 bits can count.
        let bytes = left.bytes().0;
        let half =
            Duration::from_micros(bytes.saturating_mul(1_000_000) / MAX_BYTES_PER_SECOND / 2);
        let patient = PAUSES.0 * (1 + self.still / 8).min(10);
        let pause = half.max(patient).clamp(PAUSES.0, PAUSES.1);
        if self.vain > 3 {
            pause.max(PAUSE_AFTER_VAIN_RECLAIMS * (1 << (self.vain - 4).min(5)))
        } else {
            pause
        }
    }

    /// Returns the time until the next measurement, as [`Headroom::pause`] does, for a tenant that
    /// is at its hard limit only because of unmapped page cache. The kernel drops such cache as the
    /// tenant grows. `used` is the usage without that cache, `spare` the number of cache pages by
    /// which the tenant can grow.
    ///
    /// A late measurement does no harm here, so the time doubles while the tenant does not grow.
    /// Otherwise the kernel would have to sum the counters of nearly each tenant 50 times a second,
    /// because cache fills every limit sooner or later.
    pub fn pause_at_hard_limit(&mut self, used: Pages, spare: Pages) -> Duration {
        let pause = self.pause(used, spare);
        let patient = PAUSES.0 * (1 << (self.still / 8).min(7));
        pause.max(patient.min(PAUSES.1))
    }

    /// Whether a reclaim is worth repeating that reclaimed `reclaimed` of `wanted` pages: at least
    /// 1 in 32.
    #[must_use]
    pub fn is_worth_it(reclaimed: Pages, wanted: Pages) -> bool {
        reclaimed.0 * 32 >= wanted.0 && reclaimed > Pages(0)
    }

    /// Records that a reclaim for the limits reclaimed `reclaimed` of `wanted` pages.
    pub fn note(&mut self, reclaimed: Pages, wanted: Pages) {
        self.vain = match Headroom::is_worth_it(reclaimed, wanted) {
            true => 0,
            false => self.vain.saturating_add(1),
        };
    }

    /// Returns the time until the next reclaim, after one that reclaimed `reclaimed` of `wanted`
    /// pages and was recorded with [`Headroom::note`]. Zero after a success. After a reclaim of
    /// only a few pages it is [`Headroom::pause`], because each such reclaim reads many pages in
    /// vain.
    pub fn wait_after(
        &mut self,
        (reclaimed, wanted): (Pages, Pages),
        (usage, left): (Pages, Pages),
    ) -> Duration {
        match Headroom::is_worth_it(reclaimed, wanted) {
            true => Duration::ZERO,
            false => self.pause(usage, left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn limits(max: u64, high: Option<u64>) -> (Limit, Limit) {
        let pages = |pages: u64| Limit::of(Pages(pages));
        (pages(max), high.map_or(Limit::Max, pages))
    }

    #[test]
    fn reclaim_begins_below_the_limit_and_ends_lower() {
        let limits = limits(100_000, None);
        assert_eq!(Headroom::wanted((Limit::Max, Limit::Max), Pages(1)), None);
        let far = Headroom::wanted(limits, Pages(50_000)).expect("a limit");
        assert!(far.pages == Pages(0) && far.left > Pages(40_000));
        let at = Headroom::wanted(limits, Pages(100_000)).expect("a limit");
        assert_eq!(at.pages, Pages(500));
        let near = Headroom::wanted(limits, Pages(100_000 - far.left.0.min(1))).expect("a limit");
        assert!(near.pages > Pages(0));
    }

    /// Regression: a program with 130 MiB of locked memory under a limit of 100 MiB cost the
    /// manager 18% of a core. The manager tried ten times a second, and counted as success the few
    /// pages that it reclaimed and that were faulted in again at once.
    #[test]
    fn a_limit_that_cannot_be_met_is_tried_ever_less_often() {
        let mut headroom = Headroom::default();
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            headroom.note(Pages(3), Pages(8192));
            last = headroom.pause(Pages(40_000), Pages(0));
        }
        assert_eq!(last, PAUSE_AFTER_VAIN_RECLAIMS * 32);
        let grown = headroom.pause(Pages(40_000 + 2 * GROWTH), Pages(0));
        assert!(grown < PAUSE_AFTER_VAIN_RECLAIMS, "{grown:?}");
    }

    /// Regression: if each reclaim of a tenant got only single pages, the manager reclaimed without
    /// a pause, and used a whole core.
    #[test]
    fn reclaim_of_single_pages_is_no_success() {
        let (few, all, wanted) = (Pages(1), Pages(8192), Pages(8192));
        let (mut headroom, mut last) = (Headroom::default(), Duration::ZERO);
        for _ in 0..20 {
            headroom.note(few, wanted);
            last = headroom.wait_after((few, wanted), (Pages(40_000), Pages(0)));
            assert!(last >= PAUSES.0, "{last:?}");
        }
        assert_eq!(last, PAUSE_AFTER_VAIN_RECLAIMS * 32);
        headroom.note(all, wanted);
        let at_once = headroom.wait_after((all, wanted), (Pages(40_000), Pages(0)));
        assert_eq!(at_once, Duration::ZERO);
    }

    /// Regression: the time until 256 PiB of headroom is used up, in microseconds, overflowed 64
    /// bits, and usage was measured every 2 ms.
    #[test]
    fn a_limit_of_petabytes_is_far_away() {
        for left in [1 << 38, 1 << 46, u64::MAX] {
            let pause = Headroom::default().pause(Pages(1), Pages(left));
            assert_eq!(pause, PAUSES.1, "{left} pages");
        }
    }

    #[test]
    fn a_tenant_at_its_limit_by_cache_alone_is_measured_ever_less_often() {
        let mut headroom = Headroom::default();
        let (used, spare) = (Pages(4_000), Pages(4_000));
        let first = headroom.pause_at_hard_limit(used, spare);
        // The first pause is half the time in which a program could touch 16 MiB.
        assert!(first < Duration::from_millis(5), "{first:?}");
        let pauses = (0..80).map(|_| headroom.pause_at_hard_limit(used, spare));
        let pauses: Vec<Duration> = pauses.collect();
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&PAUSES.1));
        let total: Duration = pauses.iter().sum();
        assert!(total < Duration::from_secs(10), "{total:?}");
        // Once the tenant has grown, and the kernel has dropped cache for it, the pause is short
        // again.
        assert!(
            headroom.pause_at_hard_limit(Pages(4_100), Pages(3_900)) < Duration::from_millis(5)
        );
    }

    #[test]
    fn the_stricter_limit_counts() {
        let both = limits(100_000, Some(60_000));
        assert_eq!(
            Headroom::wanted(both, Pages(70_000)).map(|w| w.pages),
            Some(Pages(10_000))
        );
        assert_eq!(
            Headroom::wanted(both, Pages(59_000)).map(|w| w.left),
            Some(Pages(1_000))
        );
    }
}
