//! Pages that were found accessed again in one round: whose and of which class, and by the cohort of the access before.
//!
//! Invariant: cohorts are those of the timeline from the round's begin to the next one's; an owner's class has counts only if one of
//! its pages was accessed again. A place is that of their tally (`tally_of`).

/// The counts of one round.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// By place, then by cohort; empty of who has none.
    counts: Vec<Vec<u64>>,
    /// Those that have some.
    places: Vec<usize>,
    cohorts: usize,
}

impl Again {
    /// A round begins, with so many cohorts.
    pub(super) fn begin(&mut self, cohorts: usize) {
        for place in self.places.drain(..) {
            // Freed, not kept: most owners sleep for most of the rounds.
            self.counts[place] = Vec::new();
        }
        self.cohorts = cohorts;
        debug_assert!(self.counts.iter().all(Vec::is_empty));
    }

    /// So many pages of this place.
    #[inline]
    pub(super) fn add(&mut self, place: usize, cohort: usize, pages: u64) {
        match self
            .counts
            .get_mut(place)
            .and_then(|counts| counts.get_mut(cohort))
        {
            Some(count) => *count += pages,
            None => self.open(place, cohort, pages),
        }
    }

    /// The first of this place in this round.
    #[cold]
    fn open(&mut self, at: usize, cohort: usize, pages: u64) {
        assert!(cohort < self.cohorts, "an access in a round to come");
        if self.counts.len() <= at {
            self.counts.resize_with(at + 1, Vec::new);
        }
        assert!(self.counts[at].is_empty(), "opened once");
        self.counts[at].resize(self.cohorts, 0);
        self.counts[at][cohort] = pages;
        self.places.push(at);
    }

    /// Cohorts with their pages, ascending, without empty ones.
    pub(super) fn of(&self, place: usize) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.get(place).into_iter().flatten();
        counts
            .enumerate()
            .filter(|(_, pages)| **pages > 0)
            .map(|(cohort, pages)| (cohort, *pages))
    }

    /// Of all places; a cohort once for each of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        self.places.iter().flat_map(|place| self.of(*place))
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let counts: usize = self.counts.iter().map(Vec::capacity).sum();
        counts * size_of::<u64>()
            + self.counts.capacity() * size_of::<Vec<u64>>()
            + self.places.capacity() * size_of::<usize>()
    }
}
