//! Handling of isolated pages around page-out: before it, pages that may not be evicted are put
//! back; after it, each page is evicted, put back or forgotten by its outcome.
//!
//! Invariant: each isolated page is finished exactly once; other pages are never changed.

use super::{PageOut, ScanReason};
use crate::folio::{FolioId, FolioType};
use crate::lruvec::Lruvec;
use crate::units::Pages;
use crate::word::{Flag, State};
use alloc::vec::Vec;

/// How the third phase of reclaim finished a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// The page was evicted by this reclaim, and has a shadow.
    Left,
    /// Kernel reclaim had evicted the page before ([`Lruvec::left`]); it has a shadow.
    Taken,
    /// The page stays in memory: on a list again, or off the lists as unevictable.
    Stayed,
    /// The program had removed the page; no shadow is kept.
    Forgotten,
    /// The page was no longer isolated: it was unmapped meanwhile, and maybe even faulted in again.
    /// The page is not changed.
    NotIsolated,
}

impl Lruvec {
    /// The reference check of lru-gen.md 6.4, by accessed bits. Puts back isolated pages that were
    /// touched since the last walk through a mapping with recency (`has_recency`), and removes them
    /// from `batch`. The accessed bit of a mapping without recency does not count and is not
    /// cleared. Returns the number of pages put back.
    pub fn keep_referenced(
        &mut self,
        batch: &mut Vec<FolioId>,
        has_recency: impl Fn(FolioId) -> bool,
    ) -> u64 {
        let before = batch.len();
        self.folios().prefetch_bits(batch);
        batch.retain(|&id| {
            let word = self.folios().get(id);
            if word.state() != State::OffList {
                return true;
            }
            let accessed = self.folios().is_accessed(id) && has_recency(id);
            let young = (accessed && self.take_accessed(id)) || word.has(Flag::Young);
            if young {
                self.put_back(id, true);
            }
            !young
        });
        (before - batch.len()) as u64
    }

    /// Enforces memory.swap.max: puts back the anon pages of `batch` that would bring the number of
    /// swapped-out anon pages above `most_out`, and removes them from `batch`. Returns the number
    /// of pages put back.
    /// spec: reclaim-control.md 3.
    pub(crate) fn keep_unswappable(&mut self, batch: &mut Vec<FolioId>, most_out: Pages) -> u64 {
        let (mut free_slots, before) = (most_out.less(self.out(FolioType::Anon)).0, batch.len());
        if free_slots >= before as u64 {
            return 0;
        }
        batch.retain(|&id| {
            let anon = self.folios().get(id).folio_type() == FolioType::Anon;
            let stays = anon && free_slots == 0;
            free_slots -= u64::from(anon && !stays);
            if stays {
                self.put_back(id, false);
            }
            !stays
        });
        (before - batch.len()) as u64
    }

    /// Finishes one isolated page by its outcome `outcome`: phase 3 of reclaim.
    pub fn finish_page(&mut self, id: FolioId, outcome: PageOut, reason: ScanReason) -> PageEnd {
        if self.folios().get(id).state() != State::OffList {
            return PageEnd::NotIsolated;
        }
        match outcome {
            PageOut::Stored => {
                self.evicted(id, reason);
                PageEnd::Left
            }
            PageOut::Taken => {
                self.left(id);
                PageEnd::Taken
            }
            PageOut::Gone => {
                self.unmap_range(id, 1);
                PageEnd::Forgotten
            }
            PageOut::Unevictable => {
                self.set_flag(id, Flag::Unevictable, true);
                PageEnd::Stayed
            }
            PageOut::TooYoung => {
                self.put_back_too_young(id);
                PageEnd::Stayed
            }
            PageOut::Referenced
            | PageOut::Shared
            | PageOut::Locked
            | PageOut::LazyFree
            | PageOut::NoSwap
            | PageOut::Busy => {
                self.put_back(id, outcome == PageOut::Referenced);
                PageEnd::Stayed
            }
        }
    }
}
