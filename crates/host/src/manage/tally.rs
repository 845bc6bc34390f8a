//! What paging out came to.
//!
//! Invariant: a page that stayed is counted once, however often it was tried; one that left at last has not stayed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::{FolioId, PageOut, Pages};

use super::options::Kept;

/// A page: its tenant's index, and its id there.
type Page = (usize, u32);

const fn page(memcg: MemcgId, id: FolioId) -> Page {
    (memcg.index(), id.0)
}

/// What paging out came to, in one reclaim.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) evicted: u64,
    pub(super) no_swap: bool,
    /// In kernel calls that page out.
    pub(super) took: Duration,
    /// Processor time of other threads that did so.
    pub(super) by_others: Duration,
    /// Why the kernel refused, if it did.
    pub(super) refused: Option<String>,
    /// In a dry run: pages that would have left.
    pub(super) would: BTreeSet<Page>,
    /// Pages that were out before we asked: the kernel's own reclaim took them.
    pub(super) left: u64,
    /// Pages without a file, or of shared memory, that were skipped as shared.
    pub(super) shared: u64,
    /// Pages that were unmapped and stay in memory.
    unmapped: BTreeSet<Page>,
    /// Pages that did not leave, by id, why, and after which reading that was found: the engine comes back to them in
    /// the same reclaim.
    stayed: BTreeMap<Page, (PageOut, u64)>,
    /// The number of the last reading.
    reading: u64,
}

impl Tally {
    /// Goes on after reading number `reading`.
    pub(super) fn begin(&mut self, reading: u64) {
        self.reading = reading;
    }

    /// Pages that did not leave, each once.
    pub(super) fn kept(&self) -> Kept {
        let mut kept = Kept {
            busy: self.unmapped.len() as u64,
            ..Kept::default()
        };
        for (what, _) in self.stayed.values() {
            match what {
                PageOut::Referenced | PageOut::TooYoung => kept.referenced += 1,
                PageOut::Shared => kept.shared += 1,
                PageOut::Locked => kept.locked += 1,
                PageOut::LazyFree => kept.lazyfree += 1,
                PageOut::Busy | PageOut::NoSwap => kept.busy += 1,
                PageOut::Stored | PageOut::Taken | PageOut::Gone | PageOut::Unevictable => {}
            }
        }
        kept
    }

    /// The tables say no more of this page than of one that its program has removed, and it is in memory.
    pub(super) fn note_unmapped(&mut self, memcg: MemcgId, id: FolioId) {
        self.unmapped.insert(page(memcg, id));
    }

    /// In a dry run: this page would have left.
    pub(super) fn note_would(&mut self, memcg: MemcgId, id: FolioId) {
        self.would.insert(page(memcg, id));
    }

    /// No more than so many would have left.
    pub(super) fn would_at_most(&mut self, most: Pages) {
        while self.would.len() as u64 > most.0 {
            self.would.pop_last();
        }
    }

    /// What there is no use asking the kernel about once more. A page that is on its way to a list of the
    /// kernel's is busy for a moment only; what was in use before the last reading may not be any more, and an id may be another
    /// page's by now.
    pub(super) fn known(&self, memcg: MemcgId, id: FolioId) -> Option<PageOut> {
        let known = self.stayed.get(&page(memcg, id));
        let known = known.filter(|(_, reading)| *reading == self.reading);
        let known = known.map(|(what, _)| *what);
        known.filter(|what| *what != PageOut::Busy || self.refused.is_some())
    }

    pub(super) fn note(&mut self, memcg: MemcgId, id: FolioId, what: PageOut) {
        let id = page(memcg, id);
        if matches!(what, PageOut::Stored | PageOut::Taken | PageOut::Gone) {
            self.evicted += u64::from(what == PageOut::Stored);
            self.stayed.remove(&id);
            // One that was mapped once more, and has left now. (Of what is unmapped the engine is told that it is gone: that is the same event.)
            if what != PageOut::Gone {
                self.unmapped.remove(&id);
            }
        } else {
            self.stayed.insert(id, (what, self.reading));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_has_not_stayed_and_what_was_unmapped_has() {
        let mut tally = Tally::default();
        for (id, what) in [(1, PageOut::Busy), (2, PageOut::Busy), (3, PageOut::Shared)] {
            tally.note(MemcgId::FIRST, FolioId(id), what);
        }
        for (id, what) in [(1, PageOut::Gone), (2, PageOut::Stored), (3, PageOut::Gone)] {
            tally.note(MemcgId::FIRST, FolioId(id), what);
        }
        tally.note_unmapped(MemcgId::FIRST, FolioId(3));
        tally.note_unmapped(MemcgId::FIRST, FolioId(3));
        assert_eq!((tally.kept().busy, tally.kept().shared), (1, 0));
        assert_eq!(tally.evicted, 1);
        // It was mapped once more, and left.
        tally.note(MemcgId::FIRST, FolioId(3), PageOut::Stored);
        assert_eq!((tally.kept().busy, tally.evicted), (0, 2));
    }
}
