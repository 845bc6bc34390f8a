//! Page counts of one owner and class: pages by the cohort of their last access, and pages of
//! unknown age. A cohort is one scan, or several old scans that were merged.
//!
//! Invariant: counts always agree with the age records; they change with each record and are never
//! computed by reading records. Only cohorts between the first and the last used one have a count.
//! Pages that were not seen accessed since their age became known ("presumed") are also counted
//! separately, by cohort.

/// The count to which a page of known age belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CountedAt {
    pub(super) cohort: usize,
    /// Whether no access was seen, so that `cohort` is only the youngest possible one.
    pub(super) is_presumed: bool,
}

/// Page counts of one owner and class.
#[derive(Debug, Default)]
pub(super) struct AgeCounts {
    unknown: u64,
    /// Number of the cohort that `counts[0]` counts.
    base: usize,
    counts: Vec<u64>,
    /// For each of `counts`, how many of its pages are presumed. Shorter if the last cohorts have
    /// none.
    presumed: Vec<u64>,
}

impl AgeCounts {
    /// Returns the number of pages of unknown age.
    pub(super) const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Returns the number of all pages.
    pub(super) fn pages(&self) -> u64 {
        self.unknown + self.counts.iter().sum::<u64>()
    }

    /// Returns the number of pages of known age that were not seen accessed since their age became
    /// known.
    pub(super) fn presumed(&self) -> u64 {
        self.presumed.iter().sum()
    }

    /// Returns each cohort that has pages: its number, then the number of its pages; in ascending
    /// order.
    pub(super) fn known(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = (self.base..).zip(&self.counts);
        counts
            .filter(|(_, pages)| **pages > 0)
            .map(|(cohort, pages)| (cohort, *pages))
    }

    /// Returns each cohort that has pages whose last access was seen: its number, then the number
    /// of these pages; in ascending order of cohorts.
    pub(super) fn seen(&self) -> impl Iterator<Item = (usize, u64)> {
        let presumed = self.presumed.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(presumed);
        let seen = counts.map(|(pages, presumed)| pages - presumed);
        (self.base..).zip(seen).filter(|(_, pages)| *pages > 0)
    }

    /// Adds pages to the count `place`. `None` stands for the count of unknown ages.
    #[inline]
    pub(super) fn add(&mut self, place: Option<CountedAt>, pages: u64) {
        let Some(place) = place else {
            self.unknown += pages;
            return;
        };
        // For a cohort below `base` the subtraction wraps to a huge index, for which `get_mut`
        // returns `None`.
        let at = place.cohort.wrapping_sub(self.base);
        match self.counts.get_mut(at) {
            Some(count) => *count += pages,
            None => self.widen(place.cohort, pages),
        }
        if place.is_presumed {
            self.presume(place.cohort, pages);
        }
    }

    /// Subtracts pages from the count `place`. `None` stands for the count of unknown ages.
    #[inline]
    pub(super) fn subtract(&mut self, place: Option<CountedAt>, pages: u64) {
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

    /// Adds pages to the presumed pages of a cohort, which must have a count.
    #[inline]
    fn presume(&mut self, cohort: usize, pages: u64) {
        let at = cohort - self.base;
        if at >= self.presumed.len() {
            self.presumed.resize(at + 1, 0);
        }
        self.presumed[at] += pages;
        debug_assert!(self.presumed[at] <= self.counts[at]);
    }

    /// Adds pages to a cohort that has no count yet.
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

    /// Renumbers cohorts after a merge: the pages of cohort `n` are added to cohort `places[n]`.
    pub(super) fn follow(&mut self, places: &[u32]) {
        let before = (self.pages(), self.presumed());
        let mut moved = AgeCounts {
            unknown: self.unknown,
            ..AgeCounts::default()
        };
        for (cohort, pages) in self.known() {
            let place = CountedAt {
                cohort: places[cohort] as usize,
                is_presumed: false,
            };
            moved.add(Some(place), pages);
        }
        let presumed = (self.base..).zip(&self.presumed);
        for (cohort, pages) in presumed.filter(|(_, pages)| **pages > 0) {
            moved.presume(places[cohort] as usize, *pages);
        }
        // Vectors that grew by doubling have spare capacity; most processes are idle and would
        // never use it.
        moved.counts.shrink_to_fit();
        moved.presumed.shrink_to_fit();
        *self = moved;
        let after = (self.pages(), self.presumed());
        assert_eq!(after, before, "no page may be lost by merging");
        debug_assert!(self.counts.first() != Some(&0));
    }

    /// Returns the heap memory of these counts, in bytes.
    pub(super) const fn memory_bytes(&self) -> usize {
        (self.counts.capacity() + self.presumed.capacity()) * size_of::<u64>()
    }
}
