//! How far a tenant is from its limits, as the kernel measures.
//!
//! Invariant: usage is never counted from pages: it is what the kernel charges to the control group of ours, or, without
//! one or outside of it, what the kernel says is resident. How much a limit asks for is the engine's arithmetic on it
//! ([`engine::vmscan::Watermarks`]): reclaim begins ahead of need, so that the program hardly ever meets the wall.

use std::time::Duration;

use engine::vmscan::Watermarks;
use engine::{Limit, Pages};

use super::options::Limits;
use super::outside::Outside;
use crate::wall::Wall;
use crate::watch::Watch;

/// Ten-thousandths of the limit between two marks, and no reserve below them: what is kept free is missing to the
/// program. With the kernel's own reserve and 100 it had 2.4% less than under the kernel alone, and read 5% more pages
/// back; with 25 our processor time is half of that (docs/benchmarks.md). What it outruns us by, the wall holds.
const SCALE: u64 = 25;
/// Bytes a second that a program on one core touches for the first time, at most.
const TOUCHED: u64 = 2 << 30;
/// How long nobody looks at the usage: the shortest and the longest time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));
/// After reclaims that got next to nothing; twice as long after each further one, up to 32 times.
const IN_VAIN: Duration = Duration::from_millis(100);

/// Most pages that one measurement asks for: then usage is measured again.
pub(super) const PAGES_PER_MEASUREMENT: u64 = 8192;
/// The swappiness by which the kernel takes page cache first, and hardly any anonymous memory: of that the engine
/// decides. Not 0: on version 1 the limit is lowered for a moment, and a program that met it with no cache left to drop
/// would be killed.
pub(super) const CACHE_FIRST_SWAPPINESS: u8 = 1;

/// Pages that usage grows by between two measurements for reclaim to be worth another try.
const GREW: u64 = 256;

/// Where usage stands.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// At the last measurement, and when usage last grew.
    usage: Pages,
    /// Measurements since then.
    still: u32,
    /// Reclaims in a row that got next to nothing.
    vain: u32,
}

/// What the limits ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Pages that must leave.
    pub(super) pages: Pages,
    /// Pages until reclaim begins; of the nearest limit.
    pub(super) left: Pages,
}

impl Room {
    /// What `usage` is short of, under `limits`.
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

    /// How long to wait before usage is measured again: half the time in which the room that is left could be
    /// used up; longer where nothing grows.
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
        // Room of petabytes lasts for more microseconds than can be counted.
        let bytes = left.0.saturating_mul(4096);
        let half = Duration::from_micros(bytes.saturating_mul(1_000_000) / TOUCHED / 2);
        let patient = PAUSES.0 * (1 + self.still / 8).min(10);
        let pause = half.max(patient).clamp(PAUSES.0, PAUSES.1);
        if self.vain > 3 {
            pause.max(IN_VAIN * (1 << (self.vain - 4).min(5)))
        } else {
            pause
        }
    }

    /// [`Room::pause`] for a tenant that is at its wall only because of unmapped page cache, which the kernel drops as
    /// the tenant grows. `used`: usage without that cache; `spare`: the cache that is left once the limit is met. A
    /// late measurement costs nothing, so a tenant that does not grow is measured ever less often. (The story: cache
    /// fills every limit, and each tenant's counters were summed 50 times a second for ever.)
    pub(super) fn pause_at_wall(&mut self, used: Pages, spare: Pages) -> Duration {
        let pause = self.pause(used, spare);
        let patient = PAUSES.0 * (1 << (self.still / 8).min(7));
        pause.max(patient.min(PAUSES.1))
    }

    /// Whether a reclaim that got so much of what it wanted is worth another one like it.
    pub(super) fn is_worth_it(got: Pages, wanted: Pages) -> bool {
        got.0 * 32 >= wanted.0 && got > Pages(0)
    }

    /// A reclaim for the limits got so much of what it wanted.
    pub(super) fn note(&mut self, got: Pages, wanted: Pages) {
        self.vain = match Room::is_worth_it(got, wanted) {
            true => 0,
            false => self.vain.saturating_add(1),
        };
    }

    /// How long to wait after a reclaim that got so much of what it wanted, and was noted. (The story: it was repeated at once for a single
    /// page, by whoever holds many tenants, and the pages beside that one were isolated and read each time.)
    pub(super) fn wait_after(
        &mut self,
        (got, wanted): (Pages, Pages),
        (usage, left): (Pages, Pages),
    ) -> Duration {
        match Room::is_worth_it(got, wanted) {
            true => Duration::ZERO,
            false => self.pause(usage, left),
        }
    }
}

/// Whether that is what the wall is charged: cache that nobody maps is in it then, and not in what is resident.
pub(super) fn is_charged(watch: &Watch, wall: &Wall, outside: &Outside) -> bool {
    let charged = || Pages(wall.charged().unwrap_or(0) / 4096);
    outside.is_empty() || charged() >= resident(watch)
}

/// What the tenant uses now: what the wall is charged or, if members are outside of it, what is resident, if that is more. (The story: of a
/// program that had moved itself to another group the wall was charged 3 MiB for ever, so a limit of 512 MiB held nothing.)
pub(super) fn usage(watch: &Watch, wall: Option<&Wall>, outside: &Outside) -> Pages {
    let charged = wall.and_then(|wall| wall.charged().ok());
    match charged.map(|bytes| Pages(bytes / 4096)) {
        Some(charged) if outside.is_empty() => charged,
        // Not the sum of both: what a member was charged for before it left stays charged to the wall.
        Some(charged) => charged.max(resident(watch)),
        None => resident(watch),
    }
}

/// What the members have in memory, each frame once.
fn resident(watch: &Watch) -> Pages {
    // The last look counted each frame once; since then each process may have come to more or less.
    let mut sum = i64::try_from(watch.ages().books().pages()).unwrap_or(i64::MAX);
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

/// Pages of this machine.
pub(super) fn machine_pages(watch: &Watch) -> Pages {
    Pages(watch.proc().memory().map_or(0, |memory| memory.total) / 4096)
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
        assert_eq!(Room::wanted(&Limits::default(), Pages(1)), None);
        let far = Room::wanted(&limits, Pages(50_000)).expect("a limit");
        assert!(far.pages == Pages(0) && far.left > Pages(40_000));
        let at = Room::wanted(&limits, Pages(100_000)).expect("a limit");
        assert_eq!(at.pages, Pages(500));
        let near = Room::wanted(&limits, Pages(100_000 - far.left.0.min(1))).expect("a limit");
        assert!(near.pages > Pages(0));
    }

    /// A curve names limits in which so much memory is held at least.
    #[test]
    fn reclaim_ends_where_curves_say_that_it_does() {
        let at = Room::wanted(&limits(100_000, None), Pages(100_000)).expect("a limit");
        let held = 100_000 - at.pages.0;
        assert_eq!(held, 100 * crate::report::HELD_PER_MILLE);
    }

    /// A program of 130 MiB that was locked, under a limit of 100, cost the manager 18% of a core: it tried ten
    /// times a second, and the few pages that left and came back at once counted as success.
    #[test]
    fn what_cannot_be_held_is_tried_ever_less_often() {
        let mut room = Room::default();
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            room.note(Pages(3), Pages(8192));
            last = room.pause(Pages(40_000), Pages(0));
        }
        assert_eq!(last, IN_VAIN * 32);
        let grown = room.pause(Pages(40_000 + 2 * GREW), Pages(0));
        assert!(grown < IN_VAIN, "{grown:?}");
    }

    /// Of a tenant that gave a page a time, reclaim went on without a pause, and had a core for itself.
    #[test]
    fn a_page_a_time_is_no_success() {
        let (few, all, wanted) = (Pages(1), Pages(8192), Pages(8192));
        let (mut room, mut last) = (Room::default(), Duration::ZERO);
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

    /// The microseconds until a limit of 256 PiB is used up are more than 64 bits count: usage was measured every 2 ms.
    #[test]
    fn a_limit_of_petabytes_is_far_away() {
        for left in [1 << 38, 1 << 46, u64::MAX] {
            let pause = Room::default().pause(Pages(1), Pages(left));
            assert_eq!(pause, PAUSES.1, "{left} pages");
        }
    }

    #[test]
    fn who_is_at_its_wall_by_cache_alone_is_measured_ever_less_often() {
        let mut room = Room::default();
        let (used, spare) = (Pages(4_000), Pages(4_000));
        let first = room.pause_at_wall(used, spare);
        // Half the time in which 16 MiB could be used up.
        assert!(first < Duration::from_millis(5), "{first:?}");
        let pauses = (0..80).map(|_| room.pause_at_wall(used, spare));
        let pauses: Vec<Duration> = pauses.collect();
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&PAUSES.1));
        let total: Duration = pauses.iter().sum();
        assert!(total < Duration::from_secs(10), "{total:?}");
        // What grows takes the place of cache.
        assert!(room.pause_at_wall(Pages(4_100), Pages(3_900)) < Duration::from_millis(5));
    }

    #[test]
    fn the_stricter_limit_counts() {
        let both = limits(100_000, Some(60_000));
        assert_eq!(
            Room::wanted(&both, Pages(70_000)).map(|w| w.pages),
            Some(Pages(10_000))
        );
        assert_eq!(
            Room::wanted(&both, Pages(59_000)).map(|w| w.left),
            Some(Pages(1_000))
        );
    }
}
