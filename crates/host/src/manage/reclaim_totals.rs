//! Results of paging out in one reclaim.
//!
//! Invariant: a page that was not paged out is counted once, however often it was tried. A page
//! that was paged out in the end counts only as paged out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::memcg::MemcgId;
use engine::{FolioId, PageOut, Pages};

use super::options::{Kept, Reclaimed};

/// A page: first the index of its tenant, then its id in that tenant.
type Page = (usize, u32);

/// Returns the key of a page in the sets of [`ReclaimTotals`].
const fn page(memcg: MemcgId, id: FolioId) -> Page {
    (memcg.index(), id.0)
}

/// Number of times that a busy page is tried between two scans. It may only wait for its LRU list,
/// which one try ends; other busy pages stay so, whatever the number of tries.
const BUSY_TRIES_MAX: u32 = 2;

/// A page that was not paged out.
#[derive(Clone, Copy, Debug)]
struct Stayed {
    /// The reason.
    what: PageOut,
    /// Number of the last scan when the reason was found.
    reading: u64,
    /// Number of tries since that scan.
    tries: u32,
}

/// Results of paging out in one reclaim.
#[derive(Clone, Debug, Default)]
pub(super) struct ReclaimTotals {
    /// Number of pages paged out.
    pub(super) evicted: u64,
    /// Whether swap had no space for some page.
    pub(super) no_swap: bool,
    /// Elapsed time of kernel calls that page out.
    pub(super) took: Duration,
    /// Processor time of further threads that page out.
    pub(super) by_others: Duration,
    /// The kernel's first error, if it refused to page out.
    pub(super) refused: Option<String>,
    /// In a dry run: pages that would have been paged out.
    pub(super) would: BTreeSet<Page>,
    /// Number of pages that kernel reclaim had paged out before we tried them.
    pub(super) left: u64,
    /// Pages that we unmapped and that are still in memory, in the page cache.
    unmapped: BTreeSet<Page>,
    /// Pages that were not paged out. Needed because the engine tries pages again in the same
    /// reclaim.
    stayed: BTreeMap<Page, Stayed>,
    /// Pages that stayed because a driver has pinned them.
    pinned: BTreeSet<Page>,
    /// Number of the last scan.
    reading: u64,
}

impl ReclaimTotals {
    /// Begins or continues a reclaim; `reading` is the number of the last scan.
    pub(super) fn begin(&mut self, reading: u64) {
        self.reading = reading;
    }

    /// Returns how many pages were not paged out, by reason; each page counts once.
    pub(super) fn kept(&self) -> Kept {
        let mut kept = Kept {
            busy: self.unmapped.len() as u64,
            ..Kept::default()
        };
        for (page, stayed) in &self.stayed {
            match stayed.what {
                _ if self.pinned.contains(page) => {}
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

    /// Returns log lines: how many pages were paged out, or in a dry run would have been, and the
    /// reason `why`. `of` names the tenant, for example ` of /web`.
    pub(super) fn in_words(&self, of: &str, why: &str) -> Vec<String> {
        let counts = [
            ("would page out", self.would.len() as u64),
            ("paged out", self.evicted),
        ];
        let lines = counts.into_iter().filter(|(_, pages)| *pages > 0);
        lines
            .map(|(what, pages)| format!("{what} {pages} pages{of}: {why}"))
            .collect()
    }

    /// Returns the result of a reclaim of `requested` pages. `others` is the number of pages that
    /// the kernel reclaimed at our request; `unknown` is the number of pages of unknown age.
    pub(super) fn into_result(self, requested: u64, others: u64, unknown: u64) -> Reclaimed {
        Reclaimed {
            asked_pages: requested,
            evicted_pages: self.evicted + others,
            would_pages: self.would.len() as u64,
            kept: self.kept(),
            pinned_pages: self.pinned(),
            unknown_pages: unknown,
            no_swap: self.no_swap,
            refused: self.refused,
        }
    }

    /// Returns how many pages stayed because a driver has pinned them.
    pub(super) fn pinned(&self) -> u64 {
        self.pinned.len() as u64
    }

    /// Records a page that a driver has pinned: it stays in memory until the driver releases it.
    pub(super) fn note_pinned(&mut self, memcg: MemcgId, id: FolioId) {
        self.pinned.insert(page(memcg, id));
    }

    /// Whether a driver has pinned the page, as far as this reclaim has found.
    pub(super) fn is_pinned(&self, memcg: MemcgId, id: FolioId) -> bool {
        self.pinned.contains(&page(memcg, id))
    }

    /// Whether a busy page would stay busy, if it were tried again before the next scan.
    pub(super) fn is_stuck(&self, memcg: MemcgId, id: FolioId) -> bool {
        let id = page(memcg, id);
        let stayed = self.stayed.get(&id);
        let is_tried = |stayed: &Stayed| {
            stayed.what == PageOut::Busy
                && stayed.reading == self.reading
                && (stayed.tries >= BUSY_TRIES_MAX || self.pinned.contains(&id))
        };
        stayed.is_some_and(is_tried)
    }

    /// Records a page that was unmapped and is still in memory. In the page tables it cannot be
    /// distinguished from a page that the program has unmapped.
    pub(super) fn note_unmapped(&mut self, memcg: MemcgId, id: FolioId) {
        self.unmapped.insert(page(memcg, id));
    }

    /// Records that this page would have been paged out, in a dry run.
    pub(super) fn note_would(&mut self, memcg: MemcgId, id: FolioId) {
        self.would.insert(page(memcg, id));
    }

    /// Limits the number of pages that would have been paged out, in a dry run, to `most`.
    pub(super) fn would_at_most(&mut self, most: Pages) {
        while self.would.len() as u64 > most.0 {
            self.would.pop_last();
        }
    }

    /// Returns why a page was not paged out, if another try would be useless; `None` if the page is
    /// to be tried. A `Busy` page is tried again unless the kernel refused or it is stuck, as it
    /// may only wait for its LRU list. A page that was tried before the last scan is tried again,
    /// too: it may no longer be in use, and its id may have another page now.
    pub(super) fn known(&self, memcg: MemcgId, id: FolioId) -> Option<PageOut> {
        let known = self.stayed.get(&page(memcg, id));
        let known = known.filter(|stayed| stayed.reading == self.reading);
        let known = known.map(|stayed| stayed.what);
        let is_final = |what: PageOut| {
            what != PageOut::Busy || self.refused.is_some() || self.is_stuck(memcg, id)
        };
        known.filter(|what| is_final(*what))
    }

    /// Records the result of one try to page out a page.
    pub(super) fn note(&mut self, memcg: MemcgId, id: FolioId, what: PageOut) {
        let id = page(memcg, id);
        if matches!(what, PageOut::Stored | PageOut::Taken | PageOut::Gone) {
            self.evicted += u64::from(what == PageOut::Stored);
            self.stayed.remove(&id);
            self.pinned.remove(&id);
            // The page was mapped again since, and has now been paged out. (`Gone` does not show
            // that: unmapped pages are reported as gone, too.)
            if what != PageOut::Gone {
                self.unmapped.remove(&id);
            }
        } else {
            let before = self.stayed.get(&id).copied();
            let before = before.filter(|stayed| stayed.reading == self.reading);
            let stayed = Stayed {
                what,
                reading: self.reading,
                tries: before.map_or(0, |stayed| stayed.tries) + 1,
            };
            self.stayed.insert(id, stayed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: pages that io_uring had pinned were tried about a hundred times each, and
    /// parking a program with 64 MiB of them took 21 s instead of half a second.
    #[test]
    fn a_page_that_stays_busy_is_not_tried_for_ever() {
        let memcg = MemcgId::FIRST;
        let mut totals = ReclaimTotals::default();
        totals.begin(1);
        totals.note(memcg, FolioId(1), PageOut::Busy);
        assert_eq!(
            totals.known(memcg, FolioId(1)),
            None,
            "it may wait for its list"
        );
        totals.note(memcg, FolioId(1), PageOut::Busy);
        assert_eq!(totals.known(memcg, FolioId(1)), Some(PageOut::Busy));
        assert!(totals.is_stuck(memcg, FolioId(1)));
        // A pinned page is not tried again at all.
        totals.note(memcg, FolioId(2), PageOut::Busy);
        totals.note_pinned(memcg, FolioId(2));
        assert_eq!(totals.known(memcg, FolioId(2)), Some(PageOut::Busy));
        assert_eq!((totals.kept().busy, totals.pinned()), (1, 1));
        // After the next scan both are tried again: the driver may have released the page.
        totals.begin(2);
        assert_eq!(totals.known(memcg, FolioId(1)), None);
        assert_eq!(totals.known(memcg, FolioId(2)), None);
        totals.note(memcg, FolioId(2), PageOut::Stored);
        assert_eq!((totals.pinned(), totals.evicted), (0, 1));
    }

    #[test]
    fn gone_pages_have_not_stayed_and_unmapped_pages_have() {
        let mut totals = ReclaimTotals::default();
        for (id, what) in [(1, PageOut::Busy), (2, PageOut::Busy), (3, PageOut::Shared)] {
            totals.note(MemcgId::FIRST, FolioId(id), what);
        }
        for (id, what) in [(1, PageOut::Gone), (2, PageOut::Stored), (3, PageOut::Gone)] {
            totals.note(MemcgId::FIRST, FolioId(id), what);
        }
        totals.note_unmapped(MemcgId::FIRST, FolioId(3));
        totals.note_unmapped(MemcgId::FIRST, FolioId(3));
        assert_eq!((totals.kept().busy, totals.kept().shared), (1, 0));
        assert_eq!(totals.evicted, 1);
        // The page was mapped again, and then paged out.
        totals.note(MemcgId::FIRST, FolioId(3), PageOut::Stored);
        assert_eq!((totals.kept().busy, totals.evicted), (0, 2));
    }

    #[test]
    fn a_dry_run_is_logged_as_such() {
        let mut totals = ReclaimTotals::default();
        assert!(totals.in_words(" of /a", "cold").is_empty());
        (1..=3).for_each(|id| totals.note_would(MemcgId::FIRST, FolioId(id)));
        totals.would_at_most(Pages(2));
        let would = "would page out 2 pages of /a: cold";
        assert_eq!(totals.in_words(" of /a", "cold"), [would]);
        let result = totals.into_result(9, 0, 4);
        let counts = (result.asked_pages, result.would_pages, result.unknown_pages);
        assert_eq!((counts, result.evicted_pages), ((9, 2, 4), 0));
    }

    #[test]
    fn what_the_kernel_took_counts_as_reclaimed() {
        let mut totals = ReclaimTotals::default();
        totals.note(MemcgId::FIRST, FolioId(1), PageOut::Stored);
        assert_eq!(totals.in_words("", "old"), ["paged out 1 pages: old"]);
        assert_eq!(totals.into_result(5, 3, 0).evicted_pages, 4);
    }
}
