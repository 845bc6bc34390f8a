//! The curve of what is watched: each look's ages and re-accesses go to the engine, which knows what they mean.
//!
//! Invariant: a target's curve is of the address spaces that it had at each look; what an ended one had is gone with it.

use std::collections::BTreeMap;

use engine::workingset::{Cohort, CurveLook, RefaultCurve};
use engine::{Millis, Pages};

use crate::ages::MemoryKind;
use crate::books::{Books, Class, Owner};
use crate::report::{Curve, CurvePoint, REFAULTS_PER_MILLE};

/// Pages accessed within this time are the working set (the far-memory paper's T_min).
const WORKING_SET: Millis = Millis(120_000);
/// Steps between both ends of what is known.
const STEPS: u64 = 128;

/// What a look found of some owners: pages by the time of their last access, and of the access before. Those of files are among them, as
/// limits take these, too. (The story: they were taken to stay, and under the limit that was named 39 MiB of node's program were 4, and as much more of
/// its heap was there than had been said: 42% fewer came back.)
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pages: BTreeMap<u64, u64>,
    /// Those of files, once more: where others map them, too, nobody takes them.
    files: BTreeMap<u64, u64>,
    again: BTreeMap<u64, u64>,
    unknown: u64,
}

fn is_file(class: Class) -> bool {
    MemoryKind::of(class).0 == MemoryKind::File
}

impl Seen {
    /// One more owner.
    pub(crate) fn add(&mut self, books: &Books, owner: Owner) {
        for (class, last, count) in books.ages(owner) {
            *self.pages.entry(last).or_insert(0) += count;
            if is_file(class) {
                *self.files.entry(last).or_insert(0) += count;
            }
        }
        for (_, last, count) in books.again(owner) {
            *self.again.entry(last).or_insert(0) += count;
        }
        let of = |class| books.unknown(owner, class);
        self.unknown += MemoryKind::classes().map(of).sum::<u64>();
    }

    /// And all of another's owners.
    pub(crate) fn merge(&mut self, other: &Seen) {
        let add = |all: &mut BTreeMap<u64, u64>, more: &BTreeMap<u64, u64>| {
            for (last, count) in more {
                *all.entry(*last).or_insert(0) += count;
            }
        };
        add(&mut self.pages, &other.pages);
        add(&mut self.files, &other.files);
        add(&mut self.again, &other.again);
        self.unknown += other.unknown;
    }

    /// As the engine takes it; `back` pages had left and were back.
    pub(crate) fn into_look(self, now_ms: u64, back: u64) -> CurveLook {
        let cohorts = |all: BTreeMap<u64, u64>| {
            let cohort = |(last, pages)| Cohort {
                last: Millis(last),
                pages: Pages(pages),
            };
            all.into_iter().map(cohort).collect()
        };
        CurveLook {
            now: Millis(now_ms),
            again: cohorts(self.again),
            back: Pages(back),
            pages: cohorts(self.pages),
            of_files: cohorts(self.files),
            unknown: Pages(self.unknown),
        }
    }
}

/// As a report tells it; none before anything is known.
pub(crate) fn report_of(curve: &RefaultCurve) -> Option<Curve> {
    let (from, to) = (curve.in_use(), curve.known());
    let watched = curve.at(Pages(0)).watched;
    if watched == Millis(0) {
        return None;
    }
    let bytes = |pages: Pages| pages.bytes().0;
    let point = |size: Pages| {
        // All that was seen in use by the last look had no time to be full.
        let missed = match size == to {
            true => curve.at_known(),
            false => curve.at(size),
        };
        let refaulted = (missed.refaults.0, missed.touches.0);
        let idle = curve.idle(size).0;
        CurvePoint {
            idle_file_bytes: bytes(curve.files_beyond(size)),
            ..CurvePoint::new(bytes(size), idle, refaulted, missed.watched.0)
        }
    };
    let span = to.less(from).0;
    let mut sizes: Vec<Pages> = (0..=STEPS)
        .map(|step| Pages(from.0.min(to.0) + span * step / STEPS))
        .collect();
    sizes.dedup();
    let points = sizes.into_iter().filter(|size| size.0 > 0).map(point);
    let told = Curve {
        watched_ms: watched.0,
        working_set_bytes: bytes(curve.accessed_within(WORKING_SET)),
        known_from_bytes: bytes(from),
        known_to_bytes: bytes(to),
        untouched_bytes: bytes(curve.untouched()),
        blind_ms: curve.blind().0,
        points: points.filter(|point| point.watched_ms > 0).collect(),
        ..Curve::default()
    };
    Some(told.recommending(REFAULTS_PER_MILLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::Observation;

    /// Anonymous and file pages in rounds of ten seconds.
    fn round(books: &mut Books, owner: Owner, now_ms: u64, pages: &[(MemoryKind, u64, bool)]) {
        books.begin_round(now_ms);
        for (kind, frame, accessed) in pages.iter().copied() {
            let look = Observation {
                accessed,
                trusted: true,
                ..Observation::default()
            };
            books.see(owner, kind.class(0), frame, 1, look);
        }
        books.end_round();
    }

    #[test]
    fn a_page_of_a_file_is_as_any_other() {
        let mut books = Books::new(0);
        let owner = books.add_owner().expect("room");
        for (number, accessed) in [false, true, true].into_iter().enumerate() {
            let pages = [
                (MemoryKind::File, 1, accessed),
                (MemoryKind::Anon, 2, accessed && number == 2),
            ];
            round(&mut books, owner, number as u64 * 10_000, &pages);
        }
        let mut seen = Seen::default();
        seen.add(&books, owner);
        let again: u64 = seen.again.values().sum();
        assert_eq!((again, seen.pages.values().sum()), (2, 2_u64));
    }

    /// The story: after 128 looks the first ones became one, whose time is that of its last, and all memory was said to have been in use.
    #[test]
    fn what_was_never_used_stays_untouched() {
        let mut books = Books::new(0);
        let owner = books.add_owner().expect("room");
        let mut curve = RefaultCurve::default();
        for number in 0..300 {
            let page = |frame| (MemoryKind::Anon, frame, number == 0 || frame < 10);
            let pages: Vec<_> = (0..100).map(page).collect();
            round(&mut books, owner, number * 10_000, &pages);
            let mut seen = Seen::default();
            seen.add(&books, owner);
            curve.begin_is(|begin| Millis(books.representative_ms(begin.0)));
            curve.look(seen.into_look(number * 10_000, 0));
        }
        assert_eq!(curve.untouched(), Pages(90));
    }

    /// The story: of five programs with a hot set none was told a limit. Of a set that is used at random so many come back at any size below all of it
    /// that no rule of a few per mille holds there, and what was larger was not told.
    #[test]
    fn all_of_a_hot_set_is_recommended_where_no_less_will_do() {
        const HOT: usize = 2000;
        let (mut curve, mut random) = (RefaultCurve::default(), 1_u64);
        let mut last = [0_u64; 2 * HOT];
        curve.look(look(0, &[(0, 2 * HOT as u64)], &[]));
        for number in 1..=60_u64 {
            let now = number * 10_000;
            let mut again = BTreeMap::new();
            let mut access = |page: usize| {
                *again.entry(last[page]).or_insert(0) += 1;
                last[page] = now;
            };
            for page in 0..HOT {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                if random >> 60 < 14 {
                    access(page);
                }
            }
            // Each half minute one of the others, for the first time.
            if number % 3 == 0 {
                access(HOT + usize::try_from(number).expect("small"));
            }
            let mut pages = BTreeMap::new();
            last.iter()
                .for_each(|last| *pages.entry(*last).or_insert(0) += 1);
            let of = |all: BTreeMap<u64, u64>| all.into_iter().collect::<Vec<_>>();
            curve.look(look(now, &of(pages), &of(again)));
        }
        let told = report_of(&curve).expect("sixty looks");
        let chosen = told.recommended.expect("two a minute are fewer than four");
        assert!((HOT..HOT + 40).contains(&usize::try_from(chosen.bytes / 4096).expect("small")));
        assert!((chosen.refaults_per_minute - 2.0).abs() < 0.3, "{chosen:?}");
    }

    /// (The story: of a job of gigabytes that had ended a shell was left, and a limit of that size was recommended: nothing would come back.)
    #[test]
    fn what_a_job_that_ended_had_needed_is_not_forgotten() {
        let mut curve = RefaultCurve::default();
        curve.look(look(0, &[(0, 1_000_000)], &[]));
        let first = [(0, 600_000), (1000, 400_000)];
        curve.look(look(1000, &first, &[(0, 400_000)]));
        for second in 2..100_u64 {
            let now = second * 1000;
            let pages = [(0, 200_000), (now - 1000, 400_000), (now, 400_000)];
            curve.look(look(now, &pages, &[(now - 2000, 400_000)]));
        }
        curve.look(look(100_000, &[(100_000, 20_000)], &[]));
        assert_eq!(report_of(&curve).expect("looks").recommended, None);
    }

    fn look(now_ms: u64, pages: &[(u64, u64)], again: &[(u64, u64)]) -> CurveLook {
        let seen = Seen {
            pages: pages.iter().copied().collect(),
            again: again.iter().copied().collect(),
            ..Seen::default()
        };
        seen.into_look(now_ms, 0)
    }

    #[test]
    fn a_report_tells_the_curve_between_what_is_known() {
        let mut curve = RefaultCurve::default();
        assert_eq!(report_of(&curve), None);
        curve.look(look(0, &[(0, 1000)], &[]));
        assert_eq!(report_of(&curve), None, "one look is no time");
        // Two halves of 400 pages take turns; 600 pages rest.
        curve.look(look(1000, &[(0, 600), (1000, 400)], &[(0, 400)]));
        for second in 2..100_u64 {
            let now = second * 1000;
            let (before, last) = (now - 2000, now - 1000);
            let pages = [(0, 200), (last, 400), (now, 400)];
            curve.look(look(now, &pages, &[(before, 400)]));
        }
        let told = report_of(&curve).expect("a hundred looks");
        assert_eq!(told.watched_ms, 99_000);
        assert_eq!(told.known_from_bytes, 400 * 4096);
        assert_eq!(told.known_to_bytes, 800 * 4096);
        assert_eq!(told.untouched_bytes, 200 * 4096);
        assert_eq!(told.working_set_bytes, 800 * 4096);
        let (first, last) = (told.points[0], told.points[told.points.len() - 1]);
        assert_eq!((first.bytes, last.bytes), (400 * 4096, 800 * 4096));
        assert!(
            (first.refaults_per_minute - 24_000.0).abs() < 500.0,
            "{first:?}"
        );
        assert!((first.miss_ratio - 1.0).abs() < 0.05, "{first:?}");
        assert!(last.refaults_per_minute < 500.0, "{last:?}");
    }
}
