//! Pages that were found accessed again in one round: whose and of which class, and by the cohort of the access before.
//! Of an access that was seen before it is told apart what only became known: its cohort is a bound, no time of an access.
//!
//! Invariant: cohorts are those of the timeline from the round's begin to the next one's; an owner's class has counts only if one of
//! its pages was accessed again. A place is that of their tally (`tally_of`).

/// Pages of one cohort.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// All that were found younger than this cohort.
    pub(super) all: u64,
    /// Those of them of which this access and the one before were seen.
    pub(super) seen: u64,
    /// Those of them of which this access was the first that was seen.
    pub(super) first: u64,
}

impl Found {
    /// Pages that were presumed to be of their cohort `before`, or are presumed to be young `now`.
    pub(super) fn new(pages: u64, before: bool, now: bool) -> Found {
        Found {
            all: pages,
            seen: if before || now { 0 } else { pages },
            first: if before && !now { pages } else { 0 },
        }
    }

    fn add(&mut self, more: Found) {
        self.all += more.all;
        self.seen += more.seen;
        self.first += more.first;
        debug_assert!(self.seen + self.first <= self.all);
    }
}

/// The counts of one round.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// By place, then by cohort; empty of who has none.
    counts: Vec<Vec<Found>>,
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
    pub(super) fn add(&mut self, place: usize, cohort: usize, found: Found) {
        match self
            .counts
            .get_mut(place)
            .and_then(|counts| counts.get_mut(cohort))
        {
            Some(count) => count.add(found),
            None => self.open(place, cohort, found),
        }
    }

    /// The first of this place in this round.
    #[cold]
    fn open(&mut self, at: usize, cohort: usize, found: Found) {
        assert!(cohort < self.cohorts, "an access in a round to come");
        if self.counts.len() <= at {
            self.counts.resize_with(at + 1, Vec::new);
        }
        assert!(self.counts[at].is_empty(), "opened once");
        self.counts[at].resize(self.cohorts, Found::default());
        self.counts[at][cohort] = found;
        self.places.push(at);
    }

    /// Cohorts with their pages, ascending, without empty ones.
    pub(super) fn of(&self, place: usize) -> impl Iterator<Item = (usize, Found)> {
        let counts = self.counts.get(place).into_iter().flatten();
        counts
            .enumerate()
            .filter(|(_, found)| found.all > 0)
            .map(|(cohort, found)| (cohort, *found))
    }

    /// Of all places; a cohort once for each of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.places.iter().flat_map(|place| self.of(*place));
        all.map(|(cohort, found)| (cohort, found.all))
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let counts: usize = self.counts.iter().map(Vec::capacity).sum();
        counts * size_of::<Found>()
            + self.counts.capacity() * size_of::<Vec<u64>>()
            + self.places.capacity() * size_of::<usize>()
    }
}
