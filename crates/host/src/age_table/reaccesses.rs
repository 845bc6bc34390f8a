//! Pages that one scan found accessed again: their numbers by owner and class, and by the cohort of
//! the previous access. Pages whose previous access was seen are counted separately. Of other pages
//! only the age became known: their cohort is a bound, not the time of an access.
//!
//! Invariant: cohort numbers are those of the timeline from this scan's begin to the next scan's
//! begin. A part has counts only if one of its pages was accessed again.

use super::by_part::{ByPart, Part};

/// Page counts of one cohort.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// All pages whose previous access was in this cohort and that were accessed again.
    pub(super) all: u64,
    /// Pages of which this access and the previous one were seen.
    pub(super) seen: u64,
    /// Pages of which this access is the first that was seen.
    pub(super) first: u64,
}

impl Found {
    /// Creates the counts for some pages. `before`: whether the previous access was only presumed;
    /// `now`: whether this access is itself only presumed.
    pub(super) fn new(pages: u64, before: bool, now: bool) -> Found {
        Found {
            all: pages,
            seen: if before || now { 0 } else { pages },
            first: if before && !now { pages } else { 0 },
        }
    }

    /// Adds the counts in `more`.
    fn add(&mut self, more: Found) {
        self.all += more.all;
        self.seen += more.seen;
        self.first += more.first;
        debug_assert!(self.seen + self.first <= self.all);
    }
}

/// Counts of pages accessed again in one scan.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// By part, then by cohort; empty for a part without counts.
    counts: ByPart<Vec<Found>>,
    /// Parts that have counts.
    parts: Vec<Part>,
    cohorts: usize,
}

impl Again {
    /// Begins a scan with this number of cohorts.
    pub(super) fn begin(&mut self, cohorts: usize) {
        for part in self.parts.drain(..) {
            // Freed, not kept for reuse: most processes are idle in most scans.
            *self.counts.at(part) = Vec::new();
        }
        self.cohorts = cohorts;
        debug_assert!(self.counts.iter().all(Vec::is_empty));
    }

    /// Adds counts for a part and cohort.
    #[inline]
    pub(super) fn add(&mut self, part: Part, cohort: usize, found: Found) {
        let counts = self.counts.get_mut(part);
        match counts.and_then(|counts| counts.get_mut(cohort)) {
            Some(count) => count.add(found),
            None => self.open(part, cohort, found),
        }
    }

    /// Adds the first counts of a part in this scan.
    #[cold]
    fn open(&mut self, part: Part, cohort: usize, found: Found) {
        assert!(cohort < self.cohorts, "an access in a scan to come");
        let counts = self.counts.at(part);
        assert!(counts.is_empty(), "opened once");
        counts.resize(self.cohorts, Found::default());
        counts[cohort] = found;
        self.parts.push(part);
    }

    /// Returns each cohort of a part that has counts, with its counts, in ascending order.
    pub(super) fn of(&self, part: Part) -> impl Iterator<Item = (usize, Found)> {
        let counts = self.counts.get(part).into_iter().flatten();
        counts
            .enumerate()
            .filter(|(_, found)| found.all > 0)
            .map(|(cohort, found)| (cohort, *found))
    }

    /// Returns the cohorts of all parts, each with its number of pages; a cohort appears once for
    /// each part.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.parts.iter().flat_map(|part| self.of(*part));
        all.map(|(cohort, found)| (cohort, found.all))
    }

    /// Returns the heap memory of these counts, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let counts: usize = self.counts.iter().map(Vec::capacity).sum();
        counts * size_of::<Found>()
            + self.counts.memory_bytes()
            + self.parts.capacity() * size_of::<Part>()
    }
}
