//! How many refaults memories of other sizes would have had, computed from the ages of pages that
//! scans find.
//!
//! A memory of `n` pages under LRU holds the `n` pages that were accessed last (the stack of
//! Mattson and others, 1970). So an access to a page misses if at least `n` other pages were
//! accessed since the last access to that page; their number is the stack distance. Scans show it:
//! all pages with a younger last access count. Of the pages that were accessed since the last scan,
//! those accessed before this one count: on average half of them, at least none, at most all.
//!
//! Invariant: nothing is concluded about a size before as many different pages were seen in use:
//! until then a memory of that size would not be full. A page whose age becomes known was not
//! thereby accessed: it lies on the stack only from the first access on that a scan observed, and
//! the distance of that access is at least the number of pages accessed since the age became known.
//! Blind scans (too many unknown ages) count nothing, nor does the time before them.
//!
//! The start of a program does not count: the curve begins again at each scan that finds the
//! program grown, until it has not grown for [`STEADY`]. A page that was filled before then counts
//! as if it had been there when watching began, without an observed access.
//!
//! Results are of the last hour or two: counts are kept in three parts by time ([`Period`]), and
//! those of the oldest part are halved when it is longer than [`MEMORY`].

mod counts;

use alloc::vec::Vec;

use crate::units::{Millis, Pages};
use counts::{Counts, Distance};

/// Pages with the same time of last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// The time of the scan that found them accessed.
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
    /// Pages accessed since the last scan, by the time of their access before that; oldest first.
    pub again: Vec<Cohort>,
    /// Pages in memory of which this scan observed the first access, by the latest possible time of
    /// the access before; oldest first.
    pub first: Vec<Cohort>,
    /// Pages that were in swap at the last scan, and were swapped in because they were accessed.
    pub back: Pages,
    /// All evictable pages with an observed access, by the time of the last one; oldest first.
    pub pages: Vec<Cohort>,
    /// Evictable pages without an observed access, but with a known least age. Their `last` is not
    /// used.
    pub unseen: Cohort,
    /// Pages of unknown age. They may be in use, so a memory of any size is taken to hold them.
    pub unknown: Pages,
}

/// A scan is blind, and says nothing, if more than one page in this many has an unknown age.
const BLIND: u64 = 20;
/// The counts of the oldest part are halved when it is longer than this.
const MEMORY: Millis = Millis(3_600_000);
/// A program has started when it has not grown for this long, or between two scans if these are
/// farther apart.
const STEADY: Millis = Millis(3000);
/// A program has grown if it has more than `max(pages / GROWN, GROWN_PAGES)` new pages.
const GROWN: u64 = 8;
/// See [`GROWN`].
const GROWN_PAGES: u64 = 256;
/// Least length of a part of the time, in milliseconds.
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
    /// Pages that were accessed and would not have been in memory, though they had been before. A
    /// page counts at most once a scan.
    pub refaults: Pages,
    /// File pages among `refaults`.
    pub file_refaults: Pages,
    /// Lower bound of the refaults, for any order of the accesses between two scans.
    pub at_least: Pages,
    /// Upper bound of the refaults, for any order of the accesses between two scans.
    pub at_most: Pages,
    /// All pages that were accessed. A page counts at most once a scan.
    pub touches: Pages,
    /// The time in which these were counted: while a memory of this size was full.
    pub watched: Millis,
}

/// A part of the time of which counts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// The whole time.
    All,
    /// All but the later part.
    Earlier,
    /// The later part: a sixth to a third of the whole time, at least 20 s.
    Later,
}

/// Whether a program is still starting: whether it grows.
#[derive(Clone, Debug, Default)]
struct Start {
    /// When the program last grew; `pages` is its size then.
    grew: Millis,
    pages: u64,
    /// Pages that were accessed since then, and had not been in memory before.
    filled: u64,
    is_over: bool,
}

impl Start {
    /// Whether the program has grown, so that the curve must begin again. Must be called for each
    /// scan in order.
    fn grows(&mut self, scan: &CurveScan) -> bool {
        if self.is_over {
            return false;
        }
        // Pages whose age became known, but that were not filled, are no growth.
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
    /// The time of the first scan; `None` before it.
    begin: Option<Millis>,
    start: Start,
    scans: u64,
    touches: u64,
    /// Milliseconds between scans that count, and, in `blind`, those that do not: too many ages
    /// were unknown.
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
    /// Replaces the time of the first scan by what `reported` returns for it: a caller may have
    /// merged old scans, which then have another time.
    pub fn rename_begin(&mut self, reported: impl FnOnce(Millis) -> Millis) {
        self.begin = self.begin.map(reported);
    }

    /// Adds one scan; scans must come in order of time.
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
        debug_assert!(scan.now >= self.last.now, "looks come in order");
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
        // Evicted pages were older than those that stayed. Pages that were swapped in without an
        // access do not count.
        let back = scan.back.0.min(accessed.saturating_sub(scan.seen_before()));
        counts.add(Distance::exactly(known), back, 0);
        let mut above = Above::new(
            &self.last,
            begin,
            known,
            accessed - sum(&scan.again).min(accessed),
        );
        for again in &scan.again {
            let distance = above.distance(*again);
            counts.add(distance, again.pages.0, again.files.0);
        }
        let mut above = Above::new(&self.last, begin, known, 0);
        for first in &scan.first {
            let nearest = above.pages_since(first.last);
            // Only a lower bound of the distance is known: larger sizes get no refault.
            counts.add(Distance::exactly(nearest), first.pages.0, first.files.0);
        }
    }

    /// Begins a new part of the time if the present one is long enough. The two later parts
    /// together are at most a third of the whole time.
    fn begin_stretch(&mut self) {
        let [over, last] = &mut self.later;
        let before = self.earlier.watched_ms() + over.watched_ms();
        if last.watched_ms() < STRETCH.0.max(before / 5) {
            return;
        }
        self.earlier.merge(over);
        *over = core::mem::take(last);
        if self.earlier.watched_ms() > MEMORY.0 {
            self.earlier.halve();
        }
    }

    /// Returns the pages seen in use since the first scan that are still in memory, plus pages of
    /// unknown age, which a memory of any size is taken to hold.
    #[must_use]
    pub fn known(&self) -> Pages {
        let begin = self.begin.unwrap_or_default();
        let used = self.last.pages.iter().filter(|cohort| cohort.last > begin);
        let used: u64 = used.map(|cohort| cohort.pages.0).sum();
        Pages(used + self.last.unknown.0)
    }

    /// Returns the pages that were not seen in use since the first scan.
    #[must_use]
    pub fn untouched(&self) -> Pages {
        Pages(self.last.all() - self.known().0)
    }

    /// Returns the average number of pages accessed between two scans. In a smaller memory a page
    /// may miss more than once between two scans, so the refaults reported for it are too few.
    #[must_use]
    pub fn in_use(&self) -> Pages {
        Pages(self.touches.checked_div(self.scans).unwrap_or(0) + self.last.unknown.0)
    }

    /// Returns the pages that were last seen accessed within `time` before the last scan, plus
    /// pages of unknown age.
    #[must_use]
    pub fn accessed_within(&self, time: Millis) -> Pages {
        let begin = self.begin.unwrap_or_default();
        let is_within =
            |cohort: &&Cohort| cohort.last > begin && self.last.now.since(cohort.last) < time;
        let within = self.last.pages.iter().filter(is_within);
        let within: u64 = within.map(|cohort| cohort.pages.0).sum();
        Pages(within + self.last.unknown.0)
    }

    /// Returns how long the oldest page that a memory of `size` would hold has been idle.
    #[must_use]
    pub fn idle(&self, size: Pages) -> Millis {
        let mut held = self.last.unknown.0;
        for cohort in self.last.pages.iter().rev() {
            held += cohort.pages.0;
            if held >= size.0 {
                return self.last.now.since(cohort.last);
            }
        }
        self.last.now.since(self.begin.unwrap_or_default())
    }

    /// Returns the file pages that a memory of `size` would not hold.
    #[must_use]
    pub fn files_beyond(&self, size: Pages) -> Pages {
        let idle = self.idle(size);
        let is_older = |cohort: &&Cohort| self.last.now.since(cohort.last) > idle;
        let older = self.last.pages.iter().filter(is_older);
        let seen: u64 = older.map(|cohort| cohort.files.0).sum();
        Pages(seen + self.last.unseen.files.0)
    }

    /// Returns the time that does not count because too many ages were unknown.
    #[must_use]
    pub const fn blind(&self) -> Millis {
        Millis(self.blind)
    }

    /// Returns the time that counts: between scans that knew enough ages.
    #[must_use]
    pub const fn watched(&self) -> Millis {
        Millis(self.watched)
    }

    /// Returns the estimate for a memory of `size` in a period. Its `watched` is zero if fewer
    /// pages than `size` were seen in use.
    #[must_use]
    pub fn at(&self, size: Pages, period: Period) -> Missed {
        let mut missed = Missed::default();
        let [over, last] = &self.later;
        let of = match period {
            Period::All => [Some(&self.earlier), Some(over), Some(last)],
            Period::Earlier => [Some(&self.earlier), None, None],
            Period::Later => [None, Some(over), Some(last)],
        };
        for counts in of.into_iter().flatten() {
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

    /// Returns the bytes allocated on the heap.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let last = &self.last;
        let cohorts = last.again.capacity() + last.first.capacity() + last.pages.capacity();
        let counts = self.later.iter().chain([&self.earlier]);
        cohorts * size_of::<Cohort>() + counts.map(Counts::memory_bytes).sum::<usize>()
    }
}

/// Computes stack distances by the cohorts of the last scan; called with the oldest cohort first.
struct Above<'a> {
    last: &'a CurveScan,
    begin: Millis,
    known: u64,
    /// Pages of cohorts younger than the present one; `at` is the number of cohorts that are not
    /// younger.
    younger: u64,
    at: usize,
    /// Pages accessed since the last scan, maybe before the pages of the present cohort.
    came: u64,
}

impl Above<'_> {
    fn new(last: &CurveScan, begin: Millis, known: u64, came: u64) -> Above<'_> {
        Above {
            last,
            begin,
            known,
            younger: sum(&last.pages),
            at: 0,
            came,
        }
    }

    /// Goes on to the cohort of the last scan that holds pages last accessed at `time`, and returns
    /// it; cohorts may have been merged since. `None` if their accesses were not observed.
    fn turn_to(&mut self, time: Millis) -> Option<Cohort> {
        while let Some(cohort) = self.last.pages.get(self.at)
            && cohort.last <= time
        {
            self.younger -= cohort.pages.0;
            self.at += 1;
        }
        let of = self.at.checked_sub(1).map(|at| self.last.pages[at]);
        of.filter(|cohort| cohort.last > self.begin)
    }

    /// Returns the number of known pages that were accessed after `time`.
    fn pages_since(&mut self, time: Millis) -> u64 {
        self.turn_to(time);
        (self.younger + self.last.unknown.0).min(self.known)
    }

    /// Returns the stack distance of pages that were accessed again. Must be called with the oldest
    /// cohort first.
    fn distance(&mut self, again: Cohort) -> Distance {
        let of = self.turn_to(again.last);
        let before = self.came;
        self.came += again.pages.0;
        let Some(cohort) = of else {
            return Distance::exactly(self.known);
        };
        let known = |pages: u64| pages.min(self.known);
        let above = self.younger + self.last.unknown.0;
        let likely = above + before / 2;
        // Pages of the same cohort, and all those accessed since the last scan, may have come
        // before.
        let most = above + cohort.pages.0 + before;
        Distance {
            nearest: known(self.younger),
            likely: (known(likely), known(likely + cohort.pages.0)),
            farthest: known(most),
        }
    }
}

#[cfg(test)]
mod tests;
