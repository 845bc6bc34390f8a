//! The refault curve: estimates how many refaults a program would have had in memories of other
//! sizes, from the ages of pages that scans find.
//!
//! A memory of `n` pages under LRU contains the `n` pages that were accessed last (the stack of
//! Mattson and others, 1970). So an access to a page misses if at least `n` other pages were
//! accessed since the last access to that page. The number of these pages is the stack distance.
//! Scans show it: it is the number of pages whose last access is later. Of the pages accessed since
//! the last scan, only those accessed before this page count. The scan does not show which these
//! are: on average half of them, at least none, at most all.
//!
//! Invariant: a size has results only once scans have found as many different pages in use: before
//! that, a memory of that size would not be full. When the age of a page becomes known, the page
//! was not accessed by that. The page is on the stack only from its first observed access on. The
//! distance of that access is at least the number of pages accessed since the age became known.
//! A blind scan (with too many unknown ages) does not count, nor does the time before it.
//!
//! The start of a program does not count: the curve begins again at each scan that finds the
//! program grown, until the program has not grown for [`STEADY`]. Pages filled before that count as
//! if they had existed when watching began, without an observed access.
//!
//! Results cover the last hour or two: counts are kept in three parts by time ([`Period`]), and the
//! counts of the oldest part are halved when it is longer than [`MEMORY`].

mod counts;

use alloc::vec::Vec;

use crate::units::{Millis, Pages};
use counts::{Counts, Distance};

/// Pages with the same time of last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// Time of the scan that found these pages accessed.
    pub last: Millis,
    /// Number of pages.
    pub pages: Pages,
    /// Number of file pages among them; these stay in memory if other processes map them, too.
    pub files: Pages,
}

/// What one scan found.
#[derive(Clone, Debug, Default)]
pub struct CurveScan {
    /// Time of the scan.
    pub now: Millis,
    /// Pages accessed since the last scan, by the time of their previous access; oldest first.
    pub again: Vec<Cohort>,
    /// Pages in memory whose first observed access this scan found, by the latest possible time of
    /// their previous access; oldest first.
    pub first: Vec<Cohort>,
    /// Pages that were in swap at the last scan, and were swapped in because they were accessed.
    pub back: Pages,
    /// All evictable pages with an observed access, by the time of their last access; oldest first.
    pub pages: Vec<Cohort>,
    /// Evictable pages without an observed access, of which only a minimum age is known. `last` is
    /// not used.
    pub unseen: Cohort,
    /// Number of pages of unknown age. They may be in use, so they are assumed to be in a memory of
    /// any size.
    pub unknown: Pages,
}

/// A scan is blind, and does not count, if more than one in this many pages has an unknown age.
const BLIND: u64 = 20;
/// The counts of the oldest part are halved when that part is longer than this time.
const MEMORY: Millis = Millis(3_600_000);
/// The start of a program is over when the program has not grown for this time, or between two
/// scans if these are farther apart.
const STEADY: Millis = Millis(3000);
/// A program has grown if it has more than `max(pages / GROWN, GROWN_PAGES)` new pages.
const GROWN: u64 = 8;
/// Minimum number of new pages that count as growth; see [`GROWN`].
const GROWN_PAGES: u64 = 256;
/// Minimum length of a part of the time.
const STRETCH: Millis = Millis(20_000);

impl CurveScan {
    fn is_blind(&self) -> bool {
        self.unknown.0 * BLIND > self.all()
    }

    /// Returns the number of pages accessed since the last scan.
    fn accessed(&self) -> u64 {
        let of_now = self.pages.iter().filter(|cohort| cohort.last == self.now);
        of_now.map(|cohort| cohort.pages.0).sum()
    }

    /// Returns the number of accessed pages that were in memory at the last scan.
    fn seen_before(&self) -> u64 {
        sum(&self.again) + sum(&self.first)
    }

    /// Returns the number of all evictable pages and pages of unknown age.
    fn all(&self) -> u64 {
        sum(&self.pages) + self.unseen.pages.0 + self.unknown.0
    }
}

/// Estimated refaults in a memory of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Pages that were accessed and would not have been in memory any more. A page counts at most
    /// once a scan.
    pub refaults: Pages,
    /// File pages among `refaults`.
    pub file_refaults: Pages,
    /// Lower bound of the refaults, for any order of the accesses between two scans.
    pub at_least: Pages,
    /// Upper bound of the refaults, for any order of the accesses between two scans.
    pub at_most: Pages,
    /// All pages that were accessed. A page counts at most once a scan.
    pub touches: Pages,
    /// The time for which these are counted: while a memory of this size would have been full.
    pub watched: Millis,
}

/// A part of the time for which counts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// The whole time.
    All,
    /// All but [`Self::Later`].
    Earlier,
    /// The latest sixth to third of the whole time, at least 20 s.
    Later,
}

/// State of the check whether a program is still starting, that is, growing.
#[derive(Clone, Debug, Default)]
struct Start {
    /// When the program last grew; `pages` is its size at that time.
    grew: Millis,
    pages: u64,
    /// Number of pages accessed since then that had not been in memory before.
    filled: u64,
    is_over: bool,
}

impl Start {
    /// Whether the program has grown, so that the curve must begin again. Must be called once for
    /// each scan, in order.
    fn grows(&mut self, scan: &CurveScan) -> bool {
        if self.is_over {
            return false;
        }
        // Only filled pages are growth, not pages whose age became known.
        self.filled += scan
            .accessed()
            .saturating_sub(scan.seen_before() + scan.back.0);
        let grown = (self.pages / GROWN).max(GROWN_PAGES);
        if scan.all() > self.pages + grown && self.filled > grown {
            *self = Start::of(scan);
            return true;
        }
        self.is_over = scan.now.since(self.grew) >= STEADY;
        false
    }

    fn of(scan: &CurveScan) -> Start {
        Start {
            grew: scan.now,
            pages: scan.all(),
            ..Start::default()
        }
    }
}

/// Estimates the refaults of memories of other sizes.
#[derive(Clone, Debug, Default)]
pub struct RefaultCurve {
    /// What the last scan found.
    last: CurveScan,
    /// Time of the first scan; `None` before that scan.
    begin: Option<Millis>,
    start: Start,
    scans: u64,
    touches: u64,
    /// Time between scans that counts, in milliseconds; `blind` is the time that does not count,
    /// because too many ages were unknown.
    watched: u64,
    blind: u64,
    earlier: Counts,
    /// Counts of [`Period::Later`]: of a finished part, and of the present one.
    later: [Counts; 2],
}

fn sum(cohorts: &[Cohort]) -> u64 {
    cohorts.iter().map(|cohort| cohort.pages.0).sum()
}

impl RefaultCurve {
    /// Replaces the time of the first scan by what `reported` returns for it. A caller that merges
    /// old scans gives them another time.
    pub fn rename_begin(&mut self, reported: impl FnOnce(Millis) -> Millis) {
        self.begin = self.begin.map(reported);
    }

    /// Adds one scan; scans must be added in order of time.
    ///
    /// # Panics
    /// In debug builds, if cohorts are out of order or time goes back.
    pub fn scan(&mut self, scan: CurveScan) {
        debug_assert!(scan.pages.is_sorted_by_key(|cohort| cohort.last));
        debug_assert!(scan.again.is_sorted_by_key(|cohort| cohort.last));
        debug_assert!(scan.first.is_sorted_by_key(|cohort| cohort.last));
        match self.begin {
            None => {
                self.begin = Some(scan.now);
                self.start = Start::of(&scan);
            }
            Some(_) if self.start.grows(&scan) => self.begin_again(scan.now),
            Some(_) if scan.is_blind() || self.last.is_blind() => {
                self.blind += scan.now.since(self.last.now).0;
            }
            Some(begin) => self.count(begin, &scan),
        }
        self.last = scan;
    }

    /// Forgets all counts; the scan at the time `now` becomes the first one.
    fn begin_again(&mut self, now: Millis) {
        *self = RefaultCurve {
            begin: Some(now),
            start: core::mem::take(&mut self.start),
            ..RefaultCurve::default()
        };
    }

    fn count(&mut self, begin: Millis, scan: &CurveScan) {
        debug_assert!(
            scan.now >= self.last.now,
            "scans are added in order of time"
        );
        let known = self.known().0;
        let accessed = scan.accessed();
        let time = scan.now.since(self.last.now).0;
        self.scans += 1;
        self.touches += accessed;
        self.watched += time;
        self.begin_stretch();
        let counts = &mut self.later[1];
        counts.touches.add(known, accessed);
        counts.watched.add(known, time);
        // Evicted pages were older than those that stayed, so their distance is at least `known`.
        // Pages that were swapped in without an access do not count.
        let back = scan.back.0.min(accessed.saturating_sub(scan.seen_before()));
        counts.add(Distance::exactly(known), back, 0);
        let mut distances = StackDistances::new(
            &self.last,
            begin,
            known,
            accessed - sum(&scan.again).min(accessed),
        );
        for again in &scan.again {
            let distance = distances.distance(*again);
            counts.add(distance, again.pages.0, again.files.0);
        }
        let mut distances = StackDistances::new(&self.last, begin, known, 0);
        for first in &scan.first {
            let nearest = distances.pages_since(first.last);
            // Only a lower bound of the distance is known, so larger sizes count no refault.
            counts.add(Distance::exactly(nearest), first.pages.0, first.files.0);
        }
    }

    /// Begins a new part of the time if the present part is long enough. The two later parts
    /// together are at most a third of the whole time.
    fn begin_stretch(&mut self) {
        let [finished, present] = &mut self.later;
        let before = self.earlier.watched_ms() + finished.watched_ms();
        if present.watched_ms() < STRETCH.0.max(before / 5) {
            return;
        }
        self.earlier.merge(finished);
        *finished = core::mem::take(present);
        if self.earlier.watched_ms() > MEMORY.0 {
            self.earlier.halve();
        }
    }

    /// Returns the number of pages in memory that scans after the first have found in use, plus
    /// pages of unknown age. The latter are assumed to be in a memory of any size.
    #[must_use]
    pub fn known(&self) -> Pages {
        let begin = self.begin.unwrap_or_default();
        let used = self.last.pages.iter().filter(|cohort| cohort.last > begin);
        let used: u64 = used.map(|cohort| cohort.pages.0).sum();
        Pages(used + self.last.unknown.0)
    }

    /// Returns the number of pages that no scan after the first has found in use.
    #[must_use]
    pub fn untouched(&self) -> Pages {
        Pages(self.last.all() - self.known().0)
    }

    /// Returns the average number of pages accessed between two scans. In a memory smaller than
    /// that, a page may miss more than once between two scans, so the estimate of refaults is too
    /// low.
    #[must_use]
    pub fn in_use(&self) -> Pages {
        Pages(self.touches.checked_div(self.scans).unwrap_or(0) + self.last.unknown.0)
    }

    /// Returns the number of pages whose last observed access was within `time` before the last
    /// scan, plus pages of unknown age.
    #[must_use]
    pub fn accessed_within(&self, time: Millis) -> Pages {
        let begin = self.begin.unwrap_or_default();
        let is_within =
            |cohort: &&Cohort| cohort.last > begin && self.last.now.since(cohort.last) < time;
        let within = self.last.pages.iter().filter(is_within);
        let within: u64 = within.map(|cohort| cohort.pages.0).sum();
        Pages(within + self.last.unknown.0)
    }

    /// Returns how long the oldest page in a memory of `size` would have been idle.
    #[must_use]
    pub fn idle(&self, size: Pages) -> Millis {
        let mut pages = self.last.unknown.0;
        for cohort in self.last.pages.iter().rev() {
            pages += cohort.pages.0;
            if pages >= size.0 {
                return self.last.now.since(cohort.last);
            }
        }
        self.last.now.since(self.begin.unwrap_or_default())
    }

    /// Returns the number of file pages that a memory of `size` would not contain.
    #[must_use]
    pub fn files_beyond(&self, size: Pages) -> Pages {
        let idle = self.idle(size);
        let is_older = |cohort: &&Cohort| self.last.now.since(cohort.last) > idle;
        let older = self.last.pages.iter().filter(is_older);
        let seen: u64 = older.map(|cohort| cohort.files.0).sum();
        Pages(seen + self.last.unseen.files.0)
    }

    /// Returns the time that does not count, because too many ages were unknown.
    #[must_use]
    pub const fn blind(&self) -> Millis {
        Millis(self.blind)
    }

    /// Returns the time that counts: between scans that knew enough ages.
    #[must_use]
    pub const fn watched(&self) -> Millis {
        Millis(self.watched)
    }

    /// Returns the estimate for a memory of `size` in a period. `watched` is zero in the result if
    /// scans found fewer pages than `size` in use.
    #[must_use]
    pub fn at(&self, size: Pages, period: Period) -> Missed {
        let mut missed = Missed::default();
        let [finished, present] = &self.later;
        let parts = match period {
            Period::All => [Some(&self.earlier), Some(finished), Some(present)],
            Period::Earlier => [Some(&self.earlier), None, None],
            Period::Later => [None, Some(finished), Some(present)],
        };
        for counts in parts.into_iter().flatten() {
            let files = counts.file.at_least(size.0);
            missed.refaults.0 += counts.anon.at_least(size.0) + files;
            missed.file_refaults.0 += files;
            missed.at_least.0 += counts.nearest.at_least(size.0);
            missed.at_most.0 += counts.farthest.at_least(size.0);
            missed.touches.0 += counts.touches.at_least(size.0);
            missed.watched.0 += counts.watched.at_least(size.0);
        }
        missed
    }

    /// Returns the memory allocated on the heap, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let last = &self.last;
        let cohorts = last.again.capacity() + last.first.capacity() + last.pages.capacity();
        let counts = self.later.iter().chain([&self.earlier]);
        cohorts * size_of::<Cohort>() + counts.map(Counts::memory_bytes).sum::<usize>()
    }
}

/// Computes stack distances by the cohorts of the last scan. Cohorts must be passed oldest first.
struct StackDistances<'a> {
    last: &'a CurveScan,
    begin: Millis,
    known: u64,
    /// Number of pages in cohorts younger than the present one; `at` is the number of cohorts that
    /// are not younger.
    younger: u64,
    at: usize,
    /// Number of pages accessed since the last scan, possibly before the pages of the present
    /// cohort.
    accessed: u64,
}

impl StackDistances<'_> {
    fn new(last: &CurveScan, begin: Millis, known: u64, accessed: u64) -> StackDistances<'_> {
        StackDistances {
            last,
            begin,
            known,
            younger: sum(&last.pages),
            at: 0,
            accessed,
        }
    }

    /// Advances to the cohort of the last scan with the pages last accessed at `time`, and returns
    /// it (cohorts may have been merged meanwhile). `None` if these accesses were not observed.
    fn advance_to(&mut self, time: Millis) -> Option<Cohort> {
        while let Some(cohort) = self.last.pages.get(self.at)
            && cohort.last <= time
        {
            self.younger -= cohort.pages.0;
            self.at += 1;
        }
        let observed = self.at.checked_sub(1).map(|at| self.last.pages[at]);
        observed.filter(|cohort| cohort.last > self.begin)
    }

    /// Returns the number of known pages that were accessed after `time`.
    fn pages_since(&mut self, time: Millis) -> u64 {
        self.advance_to(time);
        (self.younger + self.last.unknown.0).min(self.known)
    }

    /// Returns the stack distance of pages that were accessed again. Cohorts must be passed oldest
    /// first.
    fn distance(&mut self, again: Cohort) -> Distance {
        let observed = self.advance_to(again.last);
        let accessed_before = self.accessed;
        self.accessed += again.pages.0;
        let Some(cohort) = observed else {
            return Distance::exactly(self.known);
        };
        let known = |pages: u64| pages.min(self.known);
        let above = self.younger + self.last.unknown.0;
        let likely = above + accessed_before / 2;
        // At most, all pages of the same cohort and all pages accessed since the last scan were
        // accessed before.
        let most = above + cohort.pages.0 + accessed_before;
        Distance {
            nearest: known(self.younger),
            likely: (known(likely), known(likely + cohort.pages.0)),
            farthest: known(most),
        }
    }
}

#[cfg(test)]
mod tests;
