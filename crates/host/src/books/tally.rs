//! Pages of one owner and class: how many were last accessed in which cohort, and how many unknown.
//!
//! Invariant: counts are those of the records, at every moment; they change with each record and are
//! never found by reading records. Only the cohorts between the first and the last used have a count.

/// The counts of one owner's one class.
#[derive(Debug, Default)]
pub(super) struct Tally {
    unknown: u64,
    /// The cohort of `counts[0]`.
    base: usize,
    counts: Vec<u64>,
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

    /// Cohorts with their pages, ascending, without empty ones.
    pub(super) fn known(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = (self.base..).zip(&self.counts);
        counts
            .filter(|(_, pages)| **pages > 0)
            .map(|(cohort, pages)| (cohort, *pages))
    }

    /// More pages in a cohort; in none: of unknown age.
    #[inline]
    pub(super) fn add(&mut self, cohort: Option<usize>, pages: u64) {
        let Some(cohort) = cohort else {
            self.unknown += pages;
            return;
        };
        // A cohort before the base is beyond any length.
        let at = cohort.wrapping_sub(self.base);
        match self.counts.get_mut(at) {
            Some(count) => *count += pages,
            None => self.widen(cohort, pages),
        }
    }

    /// Fewer pages in a cohort; in none: of unknown age.
    #[inline]
    pub(super) fn take(&mut self, cohort: Option<usize>, pages: u64) {
        let count = match cohort {
            Some(cohort) => &mut self.counts[cohort - self.base],
            None => &mut self.unknown,
        };
        debug_assert!(*count >= pages, "more pages leave than were counted");
        *count -= pages;
    }

    /// The first pages of a cohort outside of those that have a count.
    #[cold]
    fn widen(&mut self, cohort: usize, pages: u64) {
        if self.counts.is_empty() {
            self.base = cohort;
        }
        if cohort < self.base {
            self.counts
                .splice(..0, std::iter::repeat_n(0, self.base - cohort));
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
        let before = self.pages();
        let mut moved = Tally {
            unknown: self.unknown,
            ..Tally::default()
        };
        for (cohort, pages) in self.known() {
            moved.add(Some(places[cohort] as usize), pages);
        }
        // Growth in steps of two leaves room that idle owners will not use.
        moved.counts.shrink_to_fit();
        *self = moved;
        assert_eq!(self.pages(), before, "no page may be lost by merging");
        debug_assert!(self.counts.first() != Some(&0));
    }

    /// Bytes on the heap.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }
}
