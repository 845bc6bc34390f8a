//! The refault curve of a target: passes the ages and the repeated accesses that each scan found to
//! the engine, which computes refault rates by memory size.
//!
//! Invariant: a target's curve covers the address spaces that the target had at each scan. Later
//! scans do not include the pages of a process that has ended.

use std::collections::BTreeMap;

use engine::workingset::{Cohort, CurveScan, Missed, Period, RefaultCurve};
use engine::{Millis, Pages};

use super::falling::{Counted, falling};
use crate::age_table::{AgeTable, Class, Owner};
use crate::ages::MemoryKind;
use crate::report::{Curve, CurvePoint, REFAULTS_PER_MILLE};

/// Pages accessed within this time are the working set (T_min in the far-memory paper, ASPLOS'19).
const WORKING_SET: Millis = Millis(120_000);
/// Number of steps from the smallest to the largest size of a curve, which has one point more.
const STEPS: u64 = 128;
/// A size is reported if memory of that size was full for at least 1/4 of the watched time;
/// refaults counted in a shorter time are due to chance.
const FULL_FOR: u64 = 4;

/// Number of pages, and how many of them are file pages. Under a limit the kernel also drops file
/// pages, so file pages count towards the needed size.
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

    /// Converts the count to the engine's form. `last_ms`: time of the last access.
    fn at(self, last_ms: u64) -> Cohort {
        Cohort {
            last: Millis(last_ms),
            pages: Pages(self.pages),
            files: Pages(self.files),
        }
    }
}

/// What one scan found in some address spaces: numbers of pages, by the time of their last access
/// or of the access before that.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pages: BTreeMap<u64, Count>,
    again: BTreeMap<u64, Count>,
    /// Pages of which this scan saw the first access, by the latest time (ms) at which the previous
    /// access can have been.
    first: BTreeMap<u64, Count>,
    /// Pages of known age of which no scan has seen an access.
    unseen: Count,
    unknown: u64,
}

impl Seen {
    /// Adds the pages of one owner (an address space).
    pub(crate) fn add(&mut self, age_table: &AgeTable, owner: Owner) {
        for (class, last, pages) in age_table.seen(owner) {
            let count = match last {
                Some(last) => self.pages.entry(last).or_default(),
                None => &mut self.unseen,
            };
            count.add(class, pages);
        }
        for (class, last, seen, first) in age_table.seen_again(owner) {
            for (all, pages) in [(&mut self.again, seen), (&mut self.first, first)] {
                if pages > 0 {
                    all.entry(last).or_default().add(class, pages);
                }
            }
        }
        let of = |class| age_table.unknown(owner, class);
        self.unknown += MemoryKind::classes().map(of).sum::<u64>();
    }

    /// Adds a process that was never read: all of its pages may be in use.
    pub(crate) fn add_unread(&mut self, pages: u64) {
        self.unknown += pages;
    }

    /// Adds all pages that `other` has found.
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

    /// Converts to the engine's form. `back`: number of swapped-out pages that were refaulted since
    /// the last scan.
    pub(crate) fn into_scan(self, now_ms: u64, back: u64) -> CurveScan {
        let cohorts = |all: BTreeMap<u64, Count>| {
            let all = all.into_iter();
            all.map(|(last, count)| count.at(last)).collect()
        };
        CurveScan {
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

/// If no memory as large as the memory in use was full for long enough, a size that is smaller by
/// at most 1/16 is reported instead.
const NEARLY: u64 = 16;

/// Converts the curve to a report's form; `None` before anything is known.
pub(crate) fn report_of(curve: &RefaultCurve) -> Option<Curve> {
    let (from, to) = (curve.in_use(), curve.known());
    let watched = curve.at(Pages(0), Period::All).watched;
    if watched == Millis(0) {
        return None;
    }
    let bytes = |pages: Pages| pages.bytes().0;
    let reported = Curve {
        watched_ms: curve.watched().0,
        working_set_bytes: bytes(curve.accessed_within(WORKING_SET)),
        known_from_bytes: bytes(from),
        known_to_bytes: bytes(to),
        untouched_bytes: bytes(curve.untouched()),
        blind_ms: curve.blind().0,
        points: points(curve, watched),
        ..Curve::default()
    };
    Some(reported.recommend(REFAULTS_PER_MILLE))
}

/// Returns the points: from the memory in use between two scans up to the largest size that was
/// full for long enough ([`FULL_FOR`]).
fn points(curve: &RefaultCurve, watched: Millis) -> Vec<CurvePoint> {
    let is_reported = |missed: &Missed| missed.watched.0 * FULL_FOR >= watched.0;
    let (from, to) = (smallest(curve, is_reported), curve.known());
    let span = to.less(from).0;
    let mut sizes: Vec<Pages> = (0..=STEPS)
        .map(|step| Pages((from.0.min(to.0) + span * step / STEPS).max(1)))
        .collect();
    sizes.dedup();
    let all = sizes
        .into_iter()
        .map(|size| (size, curve.at(size, Period::All)));
    let reported: Vec<(Pages, Missed)> =
        all.take_while(|(_, missed)| is_reported(missed)).collect();
    let later: Vec<Missed> = reported
        .iter()
        .map(|(size, _)| curve.at(*size, Period::Later))
        .collect();
    let rates = |of: fn(&Missed) -> Pages| rates(reported.iter().map(|(_, missed)| missed), of);
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
    reported.iter().enumerate().map(point).collect()
}

/// Returns the smallest size to report, usually the memory in use between two scans.
///
/// If memory of that size was not full for long enough, returns the largest size that was, unless
/// that is smaller by more than [`NEARLY`] allows. (The set of pages that a steady program uses
/// varies slightly, so all of them are rarely known at the same time.)
fn smallest(curve: &RefaultCurve, is_reported: impl Fn(&Missed) -> bool) -> Pages {
    let in_use = curve.in_use();
    let reported = |size: u64| is_reported(&curve.at(Pages(size), Period::All));
    let (mut low, mut high) = (in_use.0 - in_use.0 / NEARLY, in_use.0);
    if reported(high) || !reported(low) {
        return in_use;
    }
    while low + 1 < high {
        let middle = low.midpoint(high);
        let half = if reported(middle) {
            &mut low
        } else {
            &mut high
        };
        *half = middle;
    }
    Pages(low)
}

/// Returns refaults per minute for each size; with increasing size they fall or stay equal.
fn rates<'a>(missed: impl IntoIterator<Item = &'a Missed>, of: fn(&Missed) -> Pages) -> Vec<f64> {
    falling(missed.into_iter().map(|missed| Counted {
        events: of(missed).0,
        time_ms: missed.watched.0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age_table::Observation;

    /// Does one scan. `pages`: kind, frame number, and whether the page was accessed.
    fn round(
        age_table: &mut AgeTable,
        owner: Owner,
        now_ms: u64,
        pages: &[(MemoryKind, u64, bool)],
    ) {
        age_table.begin_scan(now_ms);
        for (kind, frame, accessed) in pages.iter().copied() {
            let scan = Observation {
                accessed,
                trusted: true,
                ..Observation::default()
            };
            age_table.see(owner, kind.class(0), frame, 1, scan);
        }
        age_table.end_scan();
    }

    #[test]
    fn file_pages_count_like_any_others() {
        let mut age_table = AgeTable::new(0);
        let owner = age_table.add_owner().expect("room");
        for (number, accessed) in [false, true, true, true].into_iter().enumerate() {
            let pages = [
                (MemoryKind::File, 1, accessed),
                (MemoryKind::Anon, 2, accessed && number != 2),
            ];
            round(&mut age_table, owner, number as u64 * 10_000, &pages);
        }
        let mut seen = Seen::default();
        seen.add(&age_table, owner);
        let sum = |all: &BTreeMap<u64, Count>| -> (u64, u64) {
            let all = all.values();
            all.fold((0, 0), |sum, one| (sum.0 + one.pages, sum.1 + one.files))
        };
        assert_eq!((sum(&seen.again), sum(&seen.pages)), ((2, 1), (2, 1)));
    }

    /// Regression: after 128 scans, the first scans were merged and got the time of the last of
    /// them, so that all memory was reported as used.
    #[test]
    fn pages_never_used_stay_untouched() {
        let mut age_table = AgeTable::new(0);
        let owner = age_table.add_owner().expect("room");
        let mut curve = RefaultCurve::default();
        for number in 0..300 {
            let page = |frame| (MemoryKind::Anon, frame, number == 0 || frame < 10);
            let pages: Vec<_> = (0..100).map(page).collect();
            round(&mut age_table, owner, number * 10_000, &pages);
            let mut seen = Seen::default();
            seen.add(&age_table, owner);
            curve.rename_begin(|begin| Millis(age_table.representative_ms(begin.0)));
            curve.scan(seen.into_scan(number * 10_000, 0));
        }
        assert_eq!(curve.untouched(), Pages(90));
    }

    /// Regression: five programs with a hot set got no recommended limit. A program that accesses
    /// all pages of a set at random has, at every smaller size, more refaults than the rule allows;
    /// and larger sizes were not reported.
    #[test]
    fn all_of_a_hot_set_is_recommended_if_no_smaller_size_works() {
        const HOT: usize = 2000;
        let (mut curve, mut random) = (RefaultCurve::default(), 1_u64);
        let mut last = [0_u64; 2 * HOT];
        curve.scan(scan(0, &[(0, 2 * HOT as u64)], &[]));
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
            // Every half minute one page outside the hot set is accessed for the first time.
            if number % 3 == 0 {
                access(HOT + usize::try_from(number).expect("small"));
            }
            let mut pages = BTreeMap::new();
            last.iter()
                .for_each(|last| *pages.entry(*last).or_insert(0) += 1);
            let of = |all: BTreeMap<u64, u64>| all.into_iter().collect::<Vec<_>>();
            curve.scan(scan(now, &of(pages), &of(again)));
        }
        let reported = report_of(&curve).expect("sixty looks");
        let chosen = reported
            .recommended
            .expect("two a minute are fewer than sixty");
        let pages = usize::try_from(chosen.bytes / 4096).expect("small");
        assert!((HOT - HOT / 20..HOT + 10).contains(&pages), "{chosen:?}");
        assert!(
            (2.0..60.0).contains(&chosen.refaults_per_minute),
            "{chosen:?}"
        );
        let last = reported.points.last().expect("some");
        assert!((1.0..8.0).contains(&last.refaults_per_minute), "{last:?}");
    }

    /// Regression: after a job of gigabytes had ended, only a shell was running. A limit of the
    /// shell's size was recommended, as the shell alone had no refaults with it.
    #[test]
    fn the_need_of_an_ended_job_is_not_forgotten() {
        let mut curve = RefaultCurve::default();
        curve.scan(scan(0, &[(0, 1_000_000)], &[]));
        let first = [(0, 600_000), (1000, 400_000)];
        curve.scan(scan(1000, &first, &[(0, 400_000)]));
        for second in 2..100_u64 {
            let now = second * 1000;
            let pages = [(0, 200_000), (now - 1000, 400_000), (now, 400_000)];
            curve.scan(scan(now, &pages, &[(now - 2000, 400_000)]));
        }
        curve.scan(scan(100_000, &[(100_000, 20_000)], &[]));
        assert_eq!(report_of(&curve).expect("looks").recommended, None);
    }

    /// Regression: a program used the same 5,200 pages during a run of seconds, except for a few
    /// pages that it mapped and freed. No memory as large as the memory in use was full for a
    /// quarter of the time. So no size was reported, and all resident memory was reported as
    /// needed.
    #[test]
    fn a_steady_program_whose_pages_vary_by_a_few_has_a_point() {
        let mut curve = RefaultCurve::default();
        curve.scan(scan(0, &[(0, 55_000)], &[]));
        for second in 1..8_u64 {
            // A few of the pages that the first scan found have been freed.
            let (now, hot) = (second * 1000, if second == 1 { 5_330 } else { 5_200 });
            let pages = [(0, 49_800), (now, hot)];
            let again = [(now - 1000, 5_200)];
            curve.scan(scan(now, &pages, &again));
        }
        let reported = report_of(&curve).expect("eight looks");
        let first = reported.points.first().expect("a size");
        assert!(first.bytes > 5_100 * 4096, "{first:?}");
        assert!(reported.known_from_bytes >= first.bytes, "{reported:?}");
    }

    fn scan(now_ms: u64, pages: &[(u64, u64)], again: &[(u64, u64)]) -> CurveScan {
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
        seen.into_scan(now_ms, 0)
    }

    #[test]
    fn a_report_has_the_curve_between_known_sizes() {
        let mut curve = RefaultCurve::default();
        assert_eq!(report_of(&curve), None);
        curve.scan(scan(0, &[(0, 1000)], &[]));
        assert_eq!(report_of(&curve), None, "one look is no time");
        // The program accesses two halves of 400 pages in turn; 600 pages are idle.
        curve.scan(scan(1000, &[(0, 600), (1000, 400)], &[(0, 400)]));
        for second in 2..100_u64 {
            let now = second * 1000;
            let (before, last) = (now - 2000, now - 1000);
            let pages = [(0, 200), (last, 400), (now, 400)];
            curve.scan(scan(now, &pages, &[(before, 400)]));
        }
        let reported = report_of(&curve).expect("a hundred looks");
        assert_eq!(reported.watched_ms, 99_000);
        assert_eq!(reported.known_from_bytes, 400 * 4096);
        assert_eq!(reported.known_to_bytes, 800 * 4096);
        assert_eq!(reported.untouched_bytes, 200 * 4096);
        assert_eq!(reported.working_set_bytes, 800 * 4096);
        let (first, last) = (
            reported.points[0],
            reported.points[reported.points.len() - 1],
        );
        assert_eq!((first.bytes, last.bytes), (400 * 4096, 800 * 4096));
        assert!(
            (first.refaults_per_minute - 24_000.0).abs() < 500.0,
            "{first:?}"
        );
        assert!((first.miss_ratio - 1.0).abs() < 0.05, "{first:?}");
        assert!(last.refaults_per_minute < 500.0, "{last:?}");
    }
}
