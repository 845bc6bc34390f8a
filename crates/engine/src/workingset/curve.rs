//! What memories of other sizes would have missed, from the ages of pages as looks find them.
//!
//! A memory of `n` pages under LRU holds the `n` pages that were accessed last (the stack of Mattson and others, 1970): an
//! access to a page misses if `n` other pages or more were accessed since the access before. Looks tell
//! how many those are: all pages with a younger last access, and of the pages that were accessed since the last look as many as come
//! before this one, half of them on average; no fewer than none, no more than all.
//!
//! Invariant: nothing is concluded about a size before as many different pages were seen in use: until
//! then a memory of that size has room. A page that becomes known was not accessed by that: it lies on the stack only from its first
//! access that was seen on, and that access was at least as far as the pages that were accessed since the page became known. Looks that
//! were blind count nothing, nor does the time before them.
//!
//! A start is left out: the curve begins again at each look that finds a program grown, until it has not grown for [`STEADY`].
//! A page that was filled before has then no access that was seen, as if it had been there when watching began.
//!
//! What is told is of the last hour or two: counts are kept by three stretches of time ([`Period`]), and the oldest is halved where
//! it is longer than [`MEMORY`].

mod counts;

use alloc::vec::Vec;

use crate::units::{Millis, Pages};
use counts::{Counts, Distance};

/// Pages that were last accessed at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// The look that found them accessed.
    pub last: Millis,
    /// How many.
    pub pages: Pages,
    /// Those of files among them, which stay where others map them, too.
    pub files: Pages,
}

/// What one look found.
#[derive(Clone, Debug, Default)]
pub struct CurveLook {
    /// When it was.
    pub now: Millis,
    /// Pages that were accessed since the look before, by the access before; oldest first.
    pub again: Vec<Cohort>,
    /// Pages in memory of which an access was seen for the first time, by the latest that the one before can have been; oldest first.
    pub first: Vec<Cohort>,
    /// Pages that were in swap at the look before, and are back because they were accessed.
    pub back: Pages,
    /// All pages that may leave of which an access was seen, by the last one; oldest first.
    pub pages: Vec<Cohort>,
    /// Pages that may leave whose age has a bound, and of which no access was seen. Their time is not told.
    pub unseen: Cohort,
    /// Pages of unknown age. They may be in use, so they have room.
    pub unknown: Pages,
}

/// A look that does not know the age of more than this part of all pages says nothing of any size.
const BLIND: u64 = 20;
/// The older counts are halved where they are of more time.
const MEMORY: Millis = Millis(3_600_000);
/// A program has started when it has not grown for so long, or for the time between two looks where that is longer.
const STEADY: Millis = Millis(3000);
/// A program has grown if it filled so large a part of what it had with new pages, or [`GROWN_PAGES`] if that is more.
const GROWN: u64 = 8;
/// See [`GROWN`].
const GROWN_PAGES: u64 = 256;
/// A stretch of time is at least so long.
const STRETCH: Millis = Millis(20_000);

impl CurveLook {
    fn is_blind(&self) -> bool {
        self.unknown.0 * BLIND > self.all()
    }

    /// Pages that were accessed since the look before.
    fn accessed(&self) -> u64 {
        let of_now = self.pages.iter().filter(|cohort| cohort.last == self.now);
        of_now.map(|cohort| cohort.pages.0).sum()
    }

    /// Those that had been in memory at the look before.
    fn seen_before(&self) -> u64 {
        sum(&self.again) + sum(&self.first)
    }

    /// All pages.
    fn all(&self) -> u64 {
        sum(&self.pages) + self.unseen.pages.0 + self.unknown.0
    }
}

/// What a memory of one size would have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Pages that were accessed and would not have been there, though they had been before. A page counts once a look.
    pub refaults: Pages,
    /// Those of files among them.
    pub file_refaults: Pages,
    /// No fewer can have been, and no more, whatever the order within a look was.
    pub at_least: Pages,
    /// See [`Missed::at_least`].
    pub at_most: Pages,
    /// Pages that were accessed, all in all. A page counts once a look.
    pub touches: Pages,
    /// In so long a time: as long as that memory was full.
    pub watched: Millis,
}

/// A part of the time that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// All of it.
    All,
    /// All but the later part.
    Earlier,
    /// The later part: a sixth to a third of it, at least 20 s.
    Later,
}

/// Whether a program is still starting.
#[derive(Clone, Debug, Default)]
struct Start {
    /// When it grew last, and its pages then.
    grew: Millis,
    pages: u64,
    /// Pages that were accessed since then, and had not been in memory before.
    filled: u64,
    is_over: bool,
}

impl Start {
    /// Whether the program grew, and the curve must begin again. Looks come in order.
    fn grows(&mut self, look: &CurveLook) -> bool {
        if self.is_over {
            return false;
        }
        // What became known and was not filled is no growth.
        self.filled += look
            .accessed()
            .saturating_sub(look.seen_before() + look.back.0);
        let grown = (self.pages / GROWN).max(GROWN_PAGES);
        if look.all() > self.pages + grown && self.filled > grown {
            *self = Start::of(look);
            return true;
        }
        self.is_over = look.now.since(self.grew) >= STEADY;
        false
    }

    fn of(look: &CurveLook) -> Start {
        Start {
            grew: look.now,
            pages: look.all(),
            ..Start::default()
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RefaultCurve {
    /// As the last look left them.
    last: CurveLook,
    /// The first look; none before it.
    begin: Option<Millis>,
    start: Start,
    looks: u64,
    touches: u64,
    /// Time that counts, and of which nothing is known, milliseconds.
    watched: u64,
    blind: u64,
    earlier: Counts,
    /// The later part: a stretch that is over, and the one that goes on.
    later: [Counts; 2],
}

fn sum(cohorts: &[Cohort]) -> u64 {
    cohorts.iter().map(|cohort| cohort.pages.0).sum()
}

impl RefaultCurve {
    /// Whoever tells the looks has given the time of the first one another name: rounds of long ago may have become one.
    pub fn begin_is(&mut self, told: impl FnOnce(Millis) -> Millis) {
        self.begin = self.begin.map(told);
    }

    /// One look after the other.
    ///
    /// # Panics
    /// In debug builds, if cohorts are out of order or time goes back.
    pub fn look(&mut self, look: CurveLook) {
        debug_assert!(look.pages.is_sorted_by_key(|cohort| cohort.last));
        debug_assert!(look.again.is_sorted_by_key(|cohort| cohort.last));
        debug_assert!(look.first.is_sorted_by_key(|cohort| cohort.last));
        match self.begin {
            None => {
                self.begin = Some(look.now);
                self.start = Start::of(&look);
            }
            Some(_) if self.start.grows(&look) => self.begin_again(look.now),
            Some(_) if look.is_blind() || self.last.is_blind() => {
                self.blind += look.now.since(self.last.now).0;
            }
            Some(begin) => self.count(begin, &look),
        }
        self.last = look;
    }

    /// Forgets all that was counted: the look at this time is the first one.
    fn begin_again(&mut self, now: Millis) {
        *self = RefaultCurve {
            begin: Some(now),
            start: core::mem::take(&mut self.start),
            ..RefaultCurve::default()
        };
    }

    fn count(&mut self, begin: Millis, look: &CurveLook) {
        debug_assert!(look.now >= self.last.now, "looks come in order");
        let known = self.known().0;
        let accessed = look.accessed();
        let time = look.now.since(self.last.now).0;
        self.looks += 1;
        self.touches += accessed;
        self.watched += time;
        self.begin_stretch();
        let counts = &mut self.later[1];
        counts.touches.add(known, accessed);
        counts.watched.add(known, time);
        // What had left was older than what stayed. What another hand brought back was not accessed.
        let back = look.back.0.min(accessed.saturating_sub(look.seen_before()));
        counts.add(Distance::exactly(known), back, 0);
        let mut above = Above::new(
            &self.last,
            begin,
            known,
            accessed - sum(&look.again).min(accessed),
        );
        for again in &look.again {
            let distance = above.distance(*again);
            counts.add(distance, again.pages.0, again.files.0);
        }
        let mut above = Above::new(&self.last, begin, known, 0);
        for first in &look.first {
            let nearest = above.pages_since(first.last);
            // Only a lower bound of the distance is known, so larger sizes get no count.
            counts.add(Distance::exactly(nearest), first.pages.0, first.files.0);
        }
    }

    /// Time goes on into a new stretch where the last one is long enough: both together are a third of all, or less.
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

    /// Pages that were seen in use since the first look and are still there, and those that have room in any memory.
    #[must_use]
    pub fn known(&self) -> Pages {
        let begin = self.begin.unwrap_or_default();
        let used = self.last.pages.iter().filter(|cohort| cohort.last > begin);
        let used: u64 = used.map(|cohort| cohort.pages.0).sum();
        Pages(used + self.last.unknown.0)
    }

    /// Pages that were not seen in use since the first look.
    #[must_use]
    pub fn untouched(&self) -> Pages {
        Pages(self.last.all() - self.known().0)
    }

    /// Pages that are accessed between two looks, on average: within a smaller memory pages may miss more than once
    /// a look, and what is told of it is too little.
    #[must_use]
    pub fn in_use(&self) -> Pages {
        Pages(self.touches.checked_div(self.looks).unwrap_or(0) + self.last.unknown.0)
    }

    /// Pages that were seen accessed within this time before the last look; those of unknown age with them.
    #[must_use]
    pub fn accessed_within(&self, time: Millis) -> Pages {
        let begin = self.begin.unwrap_or_default();
        let is_within =
            |cohort: &&Cohort| cohort.last > begin && self.last.now.since(cohort.last) < time;
        let within = self.last.pages.iter().filter(is_within);
        let within: u64 = within.map(|cohort| cohort.pages.0).sum();
        Pages(within + self.last.unknown.0)
    }

    /// How long the oldest page that a memory of this size would hold has been idle.
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

    /// Pages of files that a memory of this size would not hold.
    #[must_use]
    pub fn files_beyond(&self, size: Pages) -> Pages {
        let idle = self.idle(size);
        let is_older = |cohort: &&Cohort| self.last.now.since(cohort.last) > idle;
        let older = self.last.pages.iter().filter(is_older);
        let seen: u64 = older.map(|cohort| cohort.files.0).sum();
        Pages(seen + self.last.unseen.files.0)
    }

    /// Time in which too many ages were unknown to say anything.
    #[must_use]
    pub const fn blind(&self) -> Millis {
        Millis(self.blind)
    }

    /// Time that counts: between looks that knew enough ages.
    #[must_use]
    pub const fn watched(&self) -> Millis {
        Millis(self.watched)
    }

    /// What a memory of this size would have missed in a part of the time; of no time at all if it is larger than what was seen in use.
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

    /// Bytes on the heap.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let last = &self.last;
        let cohorts = last.again.capacity() + last.first.capacity() + last.pages.capacity();
        let counts = self.later.iter().chain([&self.earlier]);
        cohorts * size_of::<Cohort>() + counts.map(Counts::memory_bytes).sum::<usize>()
    }
}

/// How many pages lie above others on the stack: from the youngest cohort down, as the last look left them.
struct Above<'a> {
    last: &'a CurveLook,
    begin: Millis,
    known: u64,
    /// Pages of cohorts that are younger than the one at hand, and how many cohorts are not.
    younger: u64,
    at: usize,
    /// Pages of this look that may have come before the ones at hand.
    came: u64,
}

impl Above<'_> {
    fn new(last: &CurveLook, begin: Millis, known: u64, came: u64) -> Above<'_> {
        Above {
            last,
            begin,
            known,
            younger: sum(&last.pages),
            at: 0,
            came,
        }
    }

    /// The cohort that these pages were in then, as far as it is known; some may have become one since.
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

    /// Pages that were accessed after this time, of those that are known.
    fn pages_since(&mut self, time: Millis) -> u64 {
        self.turn_to(time);
        (self.younger + self.last.unknown.0).min(self.known)
    }

    /// How far down these pages were. The cohorts come oldest first.
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
        // Those of the same cohort, and all that came in the same look, may have been before.
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
