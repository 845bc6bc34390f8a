//! Headroom: how far a tenant is below its limits, by the kernel's figures.
//!
//! Invariant: usage is never the sum of pages that we found. Usage is what the kernel charges to
//! our cgroup. Without a cgroup, or if processes of the tenant are outside of it, usage is the
//! memory that the kernel reports as resident.
//!
//! From the usage, the engine computes how much must be reclaimed for a limit
//! ([`engine::vmscan::Watermarks`]). Reclaim begins below the limit, so that the program hardly
//! ever meets its hard limit.

use std::time::Duration;

use engine::vmscan::Watermarks;
use engine::{Bytes, Limit, Pages};

use super::options::Limits;
use super::outside::MembersOutside;
use crate::hard_limit::HardLimit;
use crate::watch::Watch;

/// Distance between two watermarks, in ten-thousandths of the limit. Nothing is kept free below the
/// lowest watermark, as the program would have that much less memory.
///
/// With the kernel's reserve and a distance of 100, the program had 2.4% less memory than under the
/// kernel alone, and refaulted 5% more pages. A distance of 25 takes half of our processor time
/// (docs/benchmarks.md). If the program allocates faster than we reclaim, the cgroup's hard limit
/// holds.
const SCALE: u64 = 25;
/// Maximum number of bytes of new memory that a program on one processor can access in a second.
const TOUCHED: u64 = 2 << 30;
/// Minimum, then maximum time between two measurements of the usage.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));
/// Time until the next measurement after four reclaims in a row that got hardly anything. Each
/// further such reclaim doubles it, up to 32 times this time.
const IN_VAIN: Duration = Duration::from_millis(100);

/// Maximum number of pages to reclaim after one measurement of usage.
pub(super) const PAGES_PER_MEASUREMENT: u64 = 8192;
/// Swappiness with which the kernel takes page cache first and hardly any anonymous memory, which
/// the engine reclaims. Not 0: reclaim on version 1 lowers the limit for a moment, and the kernel
/// would kill a program that meets the limit and has no cache to drop.
pub(super) const CACHE_FIRST_SWAPPINESS: u8 = 1;

/// Growth of usage between two measurements, in pages. After more growth, reclaims that got hardly
/// anything no longer delay the next measurement.
const GREW: u64 = 256;

/// Usage as measured last, and how well reclaim works; both decide when usage is measured next.
#[derive(Debug, Default)]
pub(super) struct Headroom {
    /// Usage at the last measurement.
    usage: Pages,
    /// Number of measurements since usage last grew.
    still: u32,
    /// Number of reclaims in a row that got hardly anything.
    vain: u32,
}

/// What the limits of a tenant require at a usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Number of pages that must be reclaimed.
    pub(super) pages: Pages,
    /// Number of pages by which the tenant may grow before reclaim begins, for the nearest limit.
    pub(super) left: Pages,
}

impl Headroom {
    /// Returns what `limits` require at this usage; `None` if there is no limit.
    pub(super) fn wanted(limits: &Limits, usage: Pages) -> Option<Wanted> {
        let mut nearest: Option<Wanted> = None;
        let marks = match limits.max {
            Limit::Max => None,
            limit => {
                let max = limit.pages();
                let marks = Watermarks::new(max, Pages(0), SCALE);
                Some((max.less(marks.low), max.less(marks.high)))
            }
        };
        let high = match limits.high {
            Limit::Max => None,
            limit => Some((limit.pages(), limit.pages())),
        };
        for (begin, end) in marks.into_iter().chain(high) {
            let one = match usage > begin {
                true => Wanted {
                    pages: usage.less(end),
                    left: Pages(0),
                },
                false => Wanted {
                    pages: Pages(0),
                    left: begin.less(usage),
                },
            };
            let other = nearest.unwrap_or(one);
            nearest = Some(Wanted {
                pages: one.pages.max(other.pages),
                left: one.left.min(other.left),
            });
        }
        nearest
    }

    /// Returns the time until usage is measured again: half the time in which a program could use
    /// up `left` pages of headroom; more if usage does not grow.
    pub(super) fn pause(&mut self, usage: Pages, left: Pages) -> Duration {
        self.still = if usage > self.usage {
            0
        } else {
            self.still.saturating_add(1)
        };
        if usage.0 > self.usage.0 + GREW {
            self.vain = 0;
        }
        self.usage = usage;
        // A headroom of petabytes lasts for more microseconds than 64 bits count.
        let bytes = left.bytes().0;
        let half = Duration::from_micros(bytes.saturating_mul(1_000_000) / TOUCHED / 2);
        let patient = PAUSES.0 * (1 + self.still / 8).min(10);
        let pause = half.max(patient).clamp(PAUSES.0, PAUSES.1);
        if self.vain > 3 {
            pause.max(IN_VAIN * (1 << (self.vain - 4).min(5)))
        } else {
            pause
        }
    }

    /// Like [`Headroom::pause`], for a tenant that is at its hard limit only because of unmapped
    /// page cache, which the kernel drops as the tenant grows. `used` is the usage without that
    /// cache; `spare` is the part of the cache that is left when the tenant meets the limit.
    ///
    /// A late measurement costs nothing here, so the time doubles while the tenant does not grow.
    /// Cache fills every limit: otherwise the kernel would sum the counters of each tenant 50 times
    /// a second.
    pub(super) fn pause_at_hard_limit(&mut self, used: Pages, spare: Pages) -> Duration {
        let pause = self.pause(used, spare);
        let patient = PAUSES.0 * (1 << (self.still / 8).min(7));
        pause.max(patient.min(PAUSES.1))
    }

    /// Whether a reclaim that got `got` of `wanted` pages is worth repeating.
    pub(super) fn is_worth_it(got: Pages, wanted: Pages) -> bool {
        got.0 * 32 >= wanted.0 && got > Pages(0)
    }

    /// Records that a reclaim for the limits got `got` of `wanted` pages.
    pub(super) fn note(&mut self, got: Pages, wanted: Pages) {
        self.vain = match Headroom::is_worth_it(got, wanted) {
            true => 0,
            false => self.vain.saturating_add(1),
        };
    }

    /// Returns the time until the next reclaim, after one that got `got` of `wanted` pages and was
    /// recorded with [`Headroom::note`]. After a reclaim that got only a few pages there is a
    /// pause, because each reclaim isolates and reads many pages that it does not get.
    pub(super) fn wait_after(
        &mut self,
        (got, wanted): (Pages, Pages),
        (usage, left): (Pages, Pages),
    ) -> Duration {
        match Headroom::is_worth_it(got, wanted) {
            true => Duration::ZERO,
            false => self.pause(usage, left),
        }
    }
}

/// Whether [`usage`] is the cgroup's charge. The charge includes unmapped page cache; resident
/// memory does not.
pub(super) fn is_charged(watch: &Watch, hard_limit: &HardLimit, outside: &MembersOutside) -> bool {
    let charged = || Bytes(hard_limit.charged().unwrap_or(0)).pages();
    outside.is_empty() || charged() >= resident(watch)
}

/// Returns the tenant's current usage. It is the cgroup's charge; if processes of the tenant are
/// outside of the cgroup, it is at least what is resident. The charge alone would not limit a
/// program that moved itself to another cgroup.
pub(super) fn usage(
    watch: &Watch,
    hard_limit: Option<&HardLimit>,
    outside: &MembersOutside,
) -> Pages {
    let charged = hard_limit.and_then(|hard_limit| hard_limit.charged().ok());
    match charged.map(|bytes| Bytes(bytes).pages()) {
        Some(charged) if outside.is_empty() => charged,
        // The larger of the two, not their sum: a process that moved out leaves its charge in the
        // cgroup.
        Some(charged) => charged.max(resident(watch)),
        None => resident(watch),
    }
}

/// Returns the memory of the tenant's processes that is resident, each frame counted once.
fn resident(watch: &Watch) -> Pages {
    // The last scan counted each frame once; since then each process may have grown or shrunk.
    let mut sum = i64::try_from(watch.ages().age_table().pages()).unwrap_or(i64::MAX);
    for identity in watch.members() {
        let then = watch
            .ages()
            .space(*identity)
            .map_or(0, |space| space.found.present);
        let now = watch.proc().stat(identity.pid).ok().flatten();
        let now = now.map_or(0, |stat| stat.resident);
        sum += i64::try_from(now).unwrap_or(0) - i64::try_from(then).unwrap_or(0);
    }
    Pages(u64::try_from(sum).unwrap_or(0))
}

/// Returns the size of this machine's memory, in pages.
pub(super) fn machine_pages(watch: &Watch) -> Pages {
    Bytes(watch.proc().memory().map_or(0, |memory| memory.total)).pages()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Bytes;

    fn limits(max: u64, high: Option<u64>) -> Limits {
        let pages = |pages: u64| Limit::Bytes(Bytes(pages * 4096));
        Limits {
            max: pages(max),
            high: high.map_or(Limit::Max, pages),
            ..Limits::default()
        }
    }

    #[test]
    fn reclaim_begins_below_the_limit_and_ends_lower() {
        let limits = limits(100_000, None);
        assert_eq!(Headroom::wanted(&Limits::default(), Pages(1)), None);
        let far = Headroom::wanted(&limits, Pages(50_000)).expect("a limit");
        assert!(far.pages == Pages(0) && far.left > Pages(40_000));
        let at = Headroom::wanted(&limits, Pages(100_000)).expect("a limit");
        assert_eq!(at.pages, Pages(500));
        let affinity =
            Headroom::wanted(&limits, Pages(100_000 - far.left.0.min(1))).expect("a limit");
        assert!(affinity.pages > Pages(0));
    }

    /// Curves assume that at least `HELD_PER_MILLE` of a limit stays in memory.
    #[test]
    fn reclaim_ends_where_curves_say_that_it_does() {
        let at = Headroom::wanted(&limits(100_000, None), Pages(100_000)).expect("a limit");
        let held = 100_000 - at.pages.0;
        assert_eq!(held, 100 * crate::report::HELD_PER_MILLE);
    }

    /// Regression: a program with 130 MiB of locked memory under a limit of 100 MiB cost the
    /// manager 18% of a core. The manager tried ten times a second, and counted as success the few
    /// pages that left and were faulted in again at once.
    #[test]
    fn a_limit_that_cannot_be_met_is_tried_ever_less_often() {
        let mut room = Headroom::default();
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            room.note(Pages(3), Pages(8192));
            last = room.pause(Pages(40_000), Pages(0));
        }
        assert_eq!(last, IN_VAIN * 32);
        let grown = room.pause(Pages(40_000 + 2 * GREW), Pages(0));
        assert!(grown < IN_VAIN, "{grown:?}");
    }

    /// Regression: from a tenant whose memory could be reclaimed only page by page, the manager
    /// reclaimed without a pause, and used a whole core.
    #[test]
    fn reclaim_of_single_pages_is_no_success() {
        let (few, all, wanted) = (Pages(1), Pages(8192), Pages(8192));
        let (mut room, mut last) = (Headroom::default(), Duration::ZERO);
        for _ in 0..20 {
            room.note(few, wanted);
            last = room.wait_after((few, wanted), (Pages(40_000), Pages(0)));
            assert!(last >= PAUSES.0, "{last:?}");
        }
        assert_eq!(last, IN_VAIN * 32);
        room.note(all, wanted);
        let at_once = room.wait_after((all, wanted), (Pages(40_000), Pages(0)));
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
        let mut room = Headroom::default();
        let (used, spare) = (Pages(4_000), Pages(4_000));
        let first = room.pause_at_hard_limit(used, spare);
        // The first pause is half the time in which a program could use up 16 MiB.
        assert!(first < Duration::from_millis(5), "{first:?}");
        let pauses = (0..80).map(|_| room.pause_at_hard_limit(used, spare));
        let pauses: Vec<Duration> = pauses.collect();
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&PAUSES.1));
        let total: Duration = pauses.iter().sum();
        assert!(total < Duration::from_secs(10), "{total:?}");
        // The tenant has grown, and the kernel has dropped cache for that.
        assert!(room.pause_at_hard_limit(Pages(4_100), Pages(3_900)) < Duration::from_millis(5));
    }

    #[test]
    fn the_stricter_limit_counts() {
        let both = limits(100_000, Some(60_000));
        assert_eq!(
            Headroom::wanted(&both, Pages(70_000)).map(|w| w.pages),
            Some(Pages(10_000))
        );
        assert_eq!(
            Headroom::wanted(&both, Pages(59_000)).map(|w| w.left),
            Some(Pages(1_000))
        );
    }
}
