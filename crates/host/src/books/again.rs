//! Pages that were found accessed again in one round: whose, and by the cohort of the access before.
//!
//! Invariant: cohorts are those of the timeline from the round's begin to the next one's; an owner has counts only if
//! one of its pages was accessed again.

/// The counts of one round.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// By owner's number, then by cohort; empty of who has none.
    counts: Vec<Vec<u64>>,
    /// Who has some.
    owners: Vec<u16>,
    cohorts: usize,
}

impl Again {
    /// A round begins, with so many cohorts.
    pub(super) fn begin(&mut self, cohorts: usize) {
        for owner in self.owners.drain(..) {
            // Freed, not kept: most owners sleep for most of the rounds.
            self.counts[usize::from(owner)] = Vec::new();
        }
        self.cohorts = cohorts;
        debug_assert!(self.counts.iter().all(Vec::is_empty));
    }

    /// So many pages of this owner's.
    #[inline]
    pub(super) fn add(&mut self, owner: u16, cohort: usize, pages: u64) {
        let at = usize::from(owner);
        match self
            .counts
            .get_mut(at)
            .and_then(|counts| counts.get_mut(cohort))
        {
            Some(count) => *count += pages,
            None => self.open(owner, cohort, pages),
        }
    }

    /// The first of this owner's in this round.
    #[cold]
    fn open(&mut self, owner: u16, cohort: usize, pages: u64) {
        let at = usize::from(owner);
        assert!(cohort < self.cohorts, "an access in a round to come");
        if self.counts.len() <= at {
            self.counts.resize_with(at + 1, Vec::new);
        }
        assert!(self.counts[at].is_empty(), "opened once");
        self.counts[at].resize(self.cohorts, 0);
        self.counts[at][cohort] = pages;
        self.owners.push(owner);
    }

    /// Cohorts with their pages, ascending, without empty ones.
    pub(super) fn of(&self, owner: u16) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.get(usize::from(owner)).into_iter().flatten();
        counts
            .enumerate()
            .filter(|(_, pages)| **pages > 0)
            .map(|(cohort, pages)| (cohort, *pages))
    }

    /// Of all owners; a cohort once for each of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        self.owners.iter().flat_map(|owner| self.of(*owner))
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let counts: usize = self.counts.iter().map(Vec::capacity).sum();
        counts * size_of::<u64>()
            + self.counts.capacity() * size_of::<Vec<u64>>()
            + self.owners.capacity() * size_of::<u16>()
    }
}
