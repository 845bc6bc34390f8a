//! The curve of what is watched: each look's ages and re-accesses go to the engine, which knows what they mean.
//!
//! Invariant: a target's curve is of the address spaces that it had at each look; what an ended one had is gone with it.

use std::collections::BTreeMap;

use engine::workingset::{Cohort, CurveLook, Missed, Period, RefaultCurve};
use engine::{Millis, Pages};

use super::falling::{Counted, falling};
use crate::ages::MemoryKind;
use crate::books::{Books, Class, Owner};
use crate::report::{Curve, CurvePoint, REFAULTS_PER_MILLE};

/// Pages accessed within this time are the working set (the far-memory paper's T_min).
const WORKING_SET: Millis = Millis(120_000);
/// Steps between both ends of what is known.
const STEPS: u64 = 128;
/// A size is told from this part of the time on: what was full for less is chance.
const FULL_FOR: u64 = 4;

/// Pages, and those of files among them. (The story: files were taken to stay, and under the limit that was named 39 MiB of node's program were 4, and as
/// much more of its heap was there than had been said: 42% fewer came back.)
#[derive(Clone, Copy, Default)]
struct Count {
    pages: u64,
    files: u64,
}

impl Count {
    fn add(&mut self, class: Class, pages: u64) {
        self.pages += pages;
        if MemoryKind::of(class).0 == MemoryKind::File {
            self.files += pages;
        }
    }

    fn merge(&mut self, other: Count) {
        self.pages += other.pages;
        self.files += other.files;
    }

    fn at(self, last_ms: u64) -> Cohort {
        Cohort {
            last: Millis(last_ms),
            pages: Pages(self.pages),
            files: Pages(self.files),
        }
    }
}

/// What a look found of some owners: pages by the time of their last access, and of the access before.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pages: BTreeMap<u64, Count>,
    again: BTreeMap<u64, Count>,
    /// Those of which an access was seen for the first time, by the latest time of the one before.
    first: BTreeMap<u64, Count>,
    /// Of a known age, without an access that was seen.
    unseen: Count,
    unknown: u64,
}

impl Seen {
    /// One more owner.
    pub(crate) fn add(&mut self, books: &Books, owner: Owner) {
        for (class, last, pages) in books.seen(owner) {
            let count = match last {
                Some(last) => self.pages.entry(last).or_default(),
                None => &mut self.unseen,
            };
            count.add(class, pages);
        }
        for (class, last, seen, first) in books.seen_again(owner) {
            for (all, pages) in [(&mut self.again, seen), (&mut self.first, first)] {
                if pages > 0 {
                    all.entry(last).or_default().add(class, pages);
                }
            }
        }
        let of = |class| books.unknown(owner, class);
        self.unknown += MemoryKind::classes().map(of).sum::<u64>();
    }

    /// And all of another's owners.
    pub(crate) fn merge(&mut self, other: &Seen) {
        let add = |all: &mut BTreeMap<u64, Count>, more: &BTreeMap<u64, Count>| {
            for (last, count) in more {
                all.entry(*last).or_default().merge(*count);
            }
        };
        add(&mut self.pages, &other.pages);
        add(&mut self.again, &other.again);
        add(&mut self.first, &other.first);
        self.unseen.merge(other.unseen);
        self.unknown += other.unknown;
    }

    /// As the engine takes it; `back` pages had left and were back.
    pub(crate) fn into_look(self, now_ms: u64, back: u64) -> CurveLook {
        let cohorts = |all: BTreeMap<u64, Count>| {
            let all = all.into_iter();
            all.map(|(last, count)| count.at(last)).collect()
        };
        CurveLook {
            now: Millis(now_ms),
            again: cohorts(self.again),
            first: cohorts(self.first),
            back: Pages(back),
            pages: cohorts(self.pages),
            unseen: self.unseen.at(0),
            unknown: Pages(self.unknown),
        }
    }
}

/// Where no memory as large as what is in use was full for long enough, one that is smaller by this part is told too.
const NEARLY: u64 = 16;

/// As a report tells it; none before anything is known.
pub(crate) fn report_of(curve: &RefaultCurve) -> Option<Curve> {
    let (from, to) = (curve.in_use(), curve.known());
    let watched = curve.at(Pages(0), Period::All).watched;
    if watched == Millis(0) {
        return None;
    }
    let bytes = |pages: Pages| pages.bytes().0;
    let told = Curve {
        watched_ms: curve.watched().0,
        working_set_bytes: bytes(curve.accessed_within(WORKING_SET)),
        known_from_bytes: bytes(from),
        known_to_bytes: bytes(to),
        untouched_bytes: bytes(curve.untouched()),
        blind_ms: curve.blind().0,
        points: points(curve, watched),
        ..Curve::default()
    };
    Some(told.recommending(REFAULTS_PER_MILLE))
}

/// Of sizes from what is in use between two looks up to what was full for long enough.
fn points(curve: &RefaultCurve, watched: Millis) -> Vec<CurvePoint> {
    let is_told = |missed: &Missed| missed.watched.0 * FULL_FOR >= watched.0;
    let (from, to) = (smallest(curve, is_told), curve.known());
    let span = to.less(from).0;
    let mut sizes: Vec<Pages> = (0..=STEPS)
        .map(|step| Pages((from.0.min(to.0) + span * step / STEPS).max(1)))
        .collect();
    sizes.dedup();
    let all = sizes
        .into_iter()
        .map(|size| (size, curve.at(size, Period::All)));
    let told: Vec<(Pages, Missed)> = all.take_while(|(_, missed)| is_told(missed)).collect();
    let later: Vec<Missed> = told
        .iter()
        .map(|(size, _)| curve.at(*size, Period::Later))
        .collect();
    let rates = |of: fn(&Missed) -> Pages| rates(told.iter().map(|(_, missed)| missed), of);
    let anon = rates(|missed| missed.refaults.less(missed.file_refaults));
    let files = rates(|missed| missed.file_refaults);
    let (at_least, at_most) = (rates(|one| one.at_least), rates(|one| one.at_most));
    let later_anon = self::rates(&later, |one| one.refaults.less(one.file_refaults));
    let later_files = self::rates(&later, |missed| missed.file_refaults);
    let point = |(at, (size, missed)): (usize, &(Pages, Missed))| CurvePoint {
        refaults_per_minute: anon[at] + files[at],
        file_refaults_per_minute: files[at],
        at_least_per_minute: at_least[at].min(anon[at] + files[at]),
        at_most_per_minute: at_most[at].max(anon[at] + files[at]),
        later_per_minute: (later[at].watched.0 > 0).then(|| later_anon[at] + later_files[at]),
        later_file_per_minute: (later[at].watched.0 > 0).then(|| later_files[at]),
        idle_file_bytes: curve.files_beyond(*size).bytes().0,
        ..CurvePoint::new(
            size.bytes().0,
            curve.idle(*size).0,
            (missed.refaults.0, missed.touches.0),
            missed.watched.0,
        )
    };
    told.iter().enumerate().map(point).collect()
}

/// What is in use between two looks. The pages of a steady program vary by a few, so all of them are seldom known at once: then the
/// largest size that can be told, if it is no smaller than [`NEARLY`] allows.
fn smallest(curve: &RefaultCurve, is_told: impl Fn(&Missed) -> bool) -> Pages {
    let in_use = curve.in_use();
    let told = |size: u64| is_told(&curve.at(Pages(size), Period::All));
    let (mut low, mut high) = (in_use.0 - in_use.0 / NEARLY, in_use.0);
    if told(high) || !told(low) {
        return in_use;
    }
    while low + 1 < high {
        let middle = low.midpoint(high);
        let half = if told(middle) { &mut low } else { &mut high };
        *half = middle;
    }
    Pages(low)
}

/// A minute, falling.
fn rates<'a>(missed: impl IntoIterator<Item = &'a Missed>, of: fn(&Missed) -> Pages) -> Vec<f64> {
    falling(missed.into_iter().map(|missed| Counted {
        events: of(missed).0,
        time_ms: missed.watched.0,
    }))
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
        for (number, accessed) in [false, true, true, true].into_iter().enumerate() {
            let pages = [
                (MemoryKind::File, 1, accessed),
                (MemoryKind::Anon, 2, accessed && number != 2),
            ];
            round(&mut books, owner, number as u64 * 10_000, &pages);
        }
        let mut seen = Seen::default();
        seen.add(&books, owner);
        let sum = |all: &BTreeMap<u64, Count>| -> (u64, u64) {
            let all = all.values();
            all.fold((0, 0), |sum, one| (sum.0 + one.pages, sum.1 + one.files))
        };
        assert_eq!((sum(&seen.again), sum(&seen.pages)), ((2, 1), (2, 1)));
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
        let chosen = told.recommended.expect("two a minute are fewer than sixty");
        let pages = usize::try_from(chosen.bytes / 4096).expect("small");
        assert!((HOT - HOT / 20..HOT + 10).contains(&pages), "{chosen:?}");
        assert!(
            (2.0..60.0).contains(&chosen.refaults_per_minute),
            "{chosen:?}"
        );
        let last = told.points.last().expect("some");
        assert!((1.0..8.0).contains(&last.refaults_per_minute), "{last:?}");
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

    /// Regression: of a run of seconds that used the same 5,200 pages all the time, but for a few that came and ended, no size was told: none as
    /// large as what is in use was full for a quarter of the time. So it was said to need all that was resident.
    #[test]
    fn a_steady_program_whose_pages_vary_by_a_few_has_a_point() {
        let mut curve = RefaultCurve::default();
        curve.look(look(0, &[(0, 55_000)], &[]));
        for second in 1..8_u64 {
            // A few of those that the first look found ended.
            let (now, hot) = (second * 1000, if second == 1 { 5_330 } else { 5_200 });
            let pages = [(0, 49_800), (now, hot)];
            let again = [(now - 1000, 5_200)];
            curve.look(look(now, &pages, &again));
        }
        let told = report_of(&curve).expect("eight looks");
        let first = told.points.first().expect("a size");
        assert!(first.bytes > 5_100 * 4096, "{first:?}");
        assert!(told.known_from_bytes >= first.bytes, "{told:?}");
    }

    fn look(now_ms: u64, pages: &[(u64, u64)], again: &[(u64, u64)]) -> CurveLook {
        let counts = |all: &[(u64, u64)]| {
            let count = |(last, pages): &(u64, u64)| {
                let count = Count {
                    pages: *pages,
                    files: 0,
                };
                (*last, count)
            };
            all.iter().map(count).collect()
        };
        let seen = Seen {
            pages: counts(pages),
            again: counts(again),
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
