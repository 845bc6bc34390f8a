//! What becomes of isolated pages: those that may not go at all before they are paged out, and each of
//! the others afterwards.
//!
//! Invariant: only an isolated page is settled, and once; with any other nothing is done.

use super::{PageOut, ScanReason};
use crate::folio::{FolioId, FolioType};
use crate::lruvec::Lruvec;
use crate::units::Pages;
use crate::word::{Flag, State};
use alloc::vec::Vec;

/// What the third phase did with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It left by our hand; its shadow stays.
    Left,
    /// It had left by another's hand ([`Lruvec::left`]); its shadow stays.
    Taken,
    /// It is on a list again.
    Stayed,
    /// Its program had removed it; nothing stays.
    Forgotten,
    /// It was unmapped, or even came back, since it was isolated: nothing was done.
    NotIsolated,
}

impl Lruvec {
    /// The reference check of 6.4, as far as the accessed bits know: isolated pages that were touched
    /// since the last walk, through a mapping of which `has_recency` says yes, are put back and taken out
    /// of `batch`. The bit of another mapping is neither counted nor cleared. Returns how many.
    pub fn keep_referenced(
        &mut self,
        batch: &mut Vec<FolioId>,
        has_recency: impl Fn(FolioId) -> bool,
    ) -> u64 {
        let before = batch.len();
        self.folios().bring_bits_near(batch);
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

    /// memory.swap.max is hard: anon pages of `batch` that would be more than `most_out` pages out are
    /// put back and taken out of it. Returns how many. spec: reclaim-control.md 3.
    pub(crate) fn keep_unswappable(&mut self, batch: &mut Vec<FolioId>, most_out: Pages) -> u64 {
        let (mut room, before) = (most_out.less(self.out(FolioType::Anon)).0, batch.len());
        if room >= before as u64 {
            return 0;
        }
        batch.retain(|&id| {
            let anon = self.folios().get(id).folio_type() == FolioType::Anon;
            let stays = anon && room == 0;
            room -= u64::from(anon && !stays);
            if stays {
                self.put_back(id, false);
            }
            !stays
        });
        (before - batch.len()) as u64
    }

    /// The third phase for one page.
    pub fn settle(&mut self, id: FolioId, what: PageOut, reason: ScanReason) -> Settled {
        if self.folios().get(id).state() != State::OffList {
            return Settled::NotIsolated;
        }
        match what {
            PageOut::Stored => {
                self.evicted(id, reason);
                Settled::Left
            }
            PageOut::Taken => {
                self.left(id);
                Settled::Taken
            }
            PageOut::Gone => {
                self.unmap_range(id, 1);
                Settled::Forgotten
            }
            PageOut::Unevictable => {
                self.set_flag(id, Flag::Unevictable, true);
                Settled::Stayed
            }
            PageOut::TooYoung => {
                self.stay(id);
                Settled::Stayed
            }
            PageOut::Referenced
            | PageOut::Shared
            | PageOut::Locked
            | PageOut::LazyFree
            | PageOut::NoSwap
            | PageOut::Busy => {
                self.put_back(id, what == PageOut::Referenced);
                Settled::Stayed
            }
        }
    }
}
