//! What memories of other sizes would have missed, from the ages of pages as looks find them.
//!
//! A memory of `n` pages under LRU holds the `n` pages that were accessed last (the stack of Mattson and others, 1970): an
//! access to a page misses if `n` other pages or more were accessed since the access before. Looks tell
//! how many those are: all pages with a younger last access, and of the pages that were accessed since the last look as many as come
//! before this one, half of them on average.
//!
//! Invariant: nothing is concluded about a size before as many different pages were seen in use: until
//! then a memory of that size has room. Pages whose last access was before the first look are below all that were
//! accessed since; how far below nobody knows, and no figure depends on it. Looks that were blind count nothing, nor does the time
//! before them. Of all that is known now, no part was full, so it goes by what was new in the later half of the time ([`RefaultCurve::at_known`]).

use alloc::vec::Vec;

use super::by_size::BySize;
use super::later::Later;
use crate::units::{Millis, Pages};

/// Pages that were last accessed at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cohort {
    /// The look that found them accessed.
    pub last: Millis,
    /// How many.
    pub pages: Pages,
}

/// What one look found.
#[derive(Clone, Debug, Default)]
pub struct CurveLook {
    /// When it was.
    pub now: Millis,
    /// Pages that were accessed since the look before, by the access before; oldest first.
    pub again: Vec<Cohort>,
    /// Pages that were in swap at the look before, and are back.
    pub back: Pages,
    /// All pages of known age that may leave, by their last access; oldest first.
    pub pages: Vec<Cohort>,
    /// Those of files among them, which stay where others map them, too.
    pub of_files: Vec<Cohort>,
    /// Pages of unknown age. They may be in use, so they have room.
    pub unknown: Pages,
}

/// A look that does not know the age of more than this part of all pages says nothing of any size.
const BLIND: u64 = 20;

impl CurveLook {
    fn is_blind(&self) -> bool {
        self.unknown.0 * BLIND > sum(&self.pages) + self.unknown.0
    }
}

/// What a memory of one size would have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Pages that were accessed and would not have been there, though they had been before. A page counts once a look.
    pub refaults: Pages,
    /// Pages that were accessed, all in all. A page counts once a look.
    pub touches: Pages,
    /// In so long a time: as long as that memory was full.
    pub watched: Millis,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RefaultCurve {
    /// As the last look left them.
    last: CurveLook,
    /// The first look; none before it.
    begin: Option<Millis>,
    looks: u64,
    touches: u64,
    /// Time of which nothing is known, milliseconds.
    blind: u64,
    /// By the pages that were accessed since the access before.
    refaults: BySize,
    /// Touches and milliseconds by the pages that had been seen in use then.
    touches_by_known: BySize,
    watched_by_known: BySize,
    /// What a memory of all that was seen in use goes by.
    later: Later,
    /// The most pages that were known at any look.
    most: u64,
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
        match self.begin {
            None => self.begin = Some(look.now),
            Some(_) if look.is_blind() || self.last.is_blind() => {
                self.blind += look.now.since(self.last.now).0;
            }
            Some(begin) => self.count(begin, &look),
        }
        self.last = look;
    }

    fn count(&mut self, begin: Millis, look: &CurveLook) {
        debug_assert!(look.now >= self.last.now, "looks come in order");
        let known = self.known().0;
        self.most = self.most.max(known);
        let of_now = look.pages.iter().filter(|cohort| cohort.last == look.now);
        let accessed: u64 = of_now.map(|cohort| cohort.pages.0).sum();
        self.looks += 1;
        self.touches += accessed;
        self.touches_by_known.add(known, accessed);
        self.watched_by_known
            .add(known, look.now.since(self.last.now).0);
        // What had left was older than what stayed.
        self.refaults.add(known, look.back.0);
        let mut first = look.back.0;
        // Of those accessed since, whoever was below this page may have come before it.
        let mut came = accessed.saturating_sub(sum(&look.again));
        let (mut below, mut at) = (sum(&self.last.pages), 0);
        for again in &look.again {
            // The cohort that it was in then; some may have become one since.
            while let Some(cohort) = self.last.pages.get(at)
                && cohort.last <= again.last
            {
                below -= cohort.pages.0;
                at += 1;
            }
            let of = at.checked_sub(1).map(|at| self.last.pages[at]);
            let count = again.pages.0;
            match of.filter(|cohort| cohort.last > begin) {
                Some(cohort) => {
                    let above = below + self.last.unknown.0 + came / 2;
                    let to = (above + cohort.pages.0).min(known);
                    self.refaults.spread(above.min(known), to, count);
                }
                None => {
                    self.refaults.add(known, count);
                    first += count;
                }
            }
            came += count;
        }
        let time = Millis(look.now.since(self.last.now).0);
        self.later.add(time, first, accessed);
        debug_assert!(self.refaults.at_least(0) >= look.back.0);
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
        let all = sum(&self.last.pages) + self.last.unknown.0;
        Pages(all - self.known().0)
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
        let older = self.last.of_files.iter().filter(is_older);
        Pages(older.map(|cohort| cohort.pages.0).sum())
    }

    /// Time in which too many ages were unknown to say anything.
    #[must_use]
    pub const fn blind(&self) -> Millis {
        Millis(self.blind)
    }

    /// What a memory of this size would have missed; of no time at all if it is larger than what was seen in use.
    #[must_use]
    pub fn at(&self, size: Pages) -> Missed {
        Missed {
            refaults: Pages(self.refaults.at_least(size.0)),
            touches: Pages(self.touches_by_known.at_least(size.0)),
            watched: Millis(self.watched_by_known.at_least(size.0)),
        }
    }

    /// What a memory as large as [`RefaultCurve::known`] is now would have missed in the later half of the time: pages that had not been seen
    /// in use before. (At first, all are such.) If more was known once, as before a process ended, and that size would have missed more, so much.
    #[must_use]
    pub fn at_known(&self) -> Missed {
        let (size, half) = (self.known(), self.later.half());
        let of_half = Missed {
            refaults: Pages(half.first),
            touches: Pages(half.touches),
            watched: Millis(half.watched),
        };
        // Less by a bin of the counts is not told apart.
        if self.most <= size.0 + size.0 / 64 + 1 {
            return of_half;
        }
        let full = self.at(size);
        let per =
            |one: &Missed, other: &Missed| u128::from(one.refaults.0) * u128::from(other.watched.0);
        match per(&full, &of_half) > per(&of_half, &full) {
            true => full,
            false => of_half,
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        let last = &self.last;
        let cohorts = last.again.capacity() + last.pages.capacity() + last.of_files.capacity();
        cohorts * size_of::<Cohort>()
            + self.refaults.memory_bytes()
            + self.touches_by_known.memory_bytes()
            + self.watched_by_known.memory_bytes()
            + self.later.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
