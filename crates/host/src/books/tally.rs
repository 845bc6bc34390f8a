//! Pages of one owner and class: how many were last accessed in which cohort, and how many unknown.
//!
//! Invariant: counts are those of the records, at every moment; they change with each record and are
//! never found by reading records. Only the cohorts between the first and the last used have a count.
//! Of each cohort it is counted, too, of how many pages no access was seen since they became known.

/// Where a page of known age is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) cohort: usize,
    /// The cohort is the youngest that the page can be of; no access was seen.
    pub(super) is_presumed: bool,
}

/// The counts of one owner's one class.
#[derive(Debug, Default)]
pub(super) struct Tally {
    unknown: u64,
    /// The cohort of `counts[0]`.
    base: usize,
    counts: Vec<u64>,
    /// Of `counts`, those that are presumed; shorter where the last cohorts have none.
    presumed: Vec<u64>,
}

impl Tally {
    /// Pages of unknown age.
    pub(super) const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// All pages.
    pub(super) fn pages(&self) -> u64 {
        self.unknown + self.counts.iter().sum::<u64>()
    }

    /// Pages of known age of which no access was seen since they became known.
    pub(super) fn presumed(&self) -> u64 {
        self.presumed.iter().sum()
    }

    /// Cohorts with their pages, ascending, without empty ones.
    pub(super) fn known(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = (self.base..).zip(&self.counts);
        counts
            .filter(|(_, pages)| **pages > 0)
            .map(|(cohort, pages)| (cohort, *pages))
    }

    /// The same of those pages of which an access was seen: it was in that cohort.
    pub(super) fn seen(&self) -> impl Iterator<Item = (usize, u64)> {
        let presumed = self.presumed.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(presumed);
        let seen = counts.map(|(pages, presumed)| pages - presumed);
        (self.base..).zip(seen).filter(|(_, pages)| *pages > 0)
    }

    /// More pages in a cohort; in none: of unknown age.
    #[inline]
    pub(super) fn add(&mut self, place: Option<Place>, pages: u64) {
        let Some(place) = place else {
            self.unknown += pages;
            return;
        };
        // A cohort before the base is beyond any length.
        let at = place.cohort.wrapping_sub(self.base);
        match self.counts.get_mut(at) {
            Some(count) => *count += pages,
            None => self.widen(place.cohort, pages),
        }
        if place.is_presumed {
            self.presume(place.cohort, pages);
        }
    }

    /// Fewer pages in a cohort; in none: of unknown age.
    #[inline]
    pub(super) fn take(&mut self, place: Option<Place>, pages: u64) {
        let count = match place {
            Some(place) => &mut self.counts[place.cohort - self.base],
            None => &mut self.unknown,
        };
        debug_assert!(*count >= pages, "more pages leave than were counted");
        *count -= pages;
        if let Some(place) = place.filter(|place| place.is_presumed) {
            self.presumed[place.cohort - self.base] -= pages;
        }
    }

    /// More presumed pages in a cohort that has a count.
    #[inline]
    fn presume(&mut self, cohort: usize, pages: u64) {
        let at = cohort - self.base;
        if at >= self.presumed.len() {
            self.presumed.resize(at + 1, 0);
        }
        self.presumed[at] += pages;
        debug_assert!(self.presumed[at] <= self.counts[at]);
    }

    /// The first pages of a cohort outside of those that have a count.
    #[cold]
    fn widen(&mut self, cohort: usize, pages: u64) {
        if self.counts.is_empty() {
            self.base = cohort;
        }
        if cohort < self.base {
            let before = || std::iter::repeat_n(0, self.base - cohort);
            self.counts.splice(..0, before());
            self.presumed.splice(..0, before());
            self.base = cohort;
        }
        let at = cohort - self.base;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        debug_assert_eq!(self.counts[at], 0);
        self.counts[at] = pages;
    }

    /// Cohorts have moved: what was at `n` is at `places[n]`.
    pub(super) fn follow(&mut self, places: &[u32]) {
        let before = (self.pages(), self.presumed());
        let mut moved = Tally {
            unknown: self.unknown,
            ..Tally::default()
        };
        for (cohort, pages) in self.known() {
            let place = Place {
                cohort: places[cohort] as usize,
                is_presumed: false,
            };
            moved.add(Some(place), pages);
        }
        let presumed = (self.base..).zip(&self.presumed);
        for (cohort, pages) in presumed.filter(|(_, pages)| **pages > 0) {
            moved.presume(places[cohort] as usize, *pages);
        }
        // Growth in steps of two leaves room that idle owners will not use.
        moved.counts.shrink_to_fit();
        moved.presumed.shrink_to_fit();
        *self = moved;
        let after = (self.pages(), self.presumed());
        assert_eq!(after, before, "no page may be lost by merging");
        debug_assert!(self.counts.first() != Some(&0));
    }

    /// Bytes on the heap.
    pub(super) const fn memory_bytes(&self) -> usize {
        (self.counts.capacity() + self.presumed.capacity()) * size_of::<u64>()
    }
}
