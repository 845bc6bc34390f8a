//! Ranges of pages that their program removed. Successive pages that are on the same list, or all
//! isolated, or all evicted, are removed together, with one update of each count.
//!
//! Invariant: a range removed at once ends as if it had been removed page by page.

use super::{Lruvec, Unmapped};
use crate::folio::{FolioId, FolioType};
use crate::word::{State, Word};
use core::ops::Range;

/// State of a page, with the list or type whose count it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageState {
    Nowhere,
    /// Evicted, of this type.
    Out(FolioType),
    /// On the list with this index.
    Listed(usize),
    /// In memory and on no list, of this type.
    OffList(FolioType),
}

impl Lruvec {
    /// Removes the pages `start..start + len`, because their program removed them: from memory and
    /// from the lists, and the shadows of evicted ones. Returns what was removed.
    pub fn unmap_range(&mut self, start: FolioId, len: usize) -> Unmapped {
        let end = start.index().saturating_add(len).min(self.folios.len());
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        let (mut gone, eager) = (Unmapped::default(), len <= 16);
        let mut at = start.0;
        while at < end {
            let place = self.place(self.folios.get(FolioId(at)));
            let same = |&id: &u32| self.place(self.folios.get(FolioId(id))) == place;
            let run = at..(at + 1..end).find(|id| !same(id)).unwrap_or(end);
            at = run.end;
            self.unmap_run(run, place, eager, &mut gone);
        }
        self.lru.bound_tombstones(&mut self.folios);
        gone
    }

    fn place(&self, word: Word) -> PageState {
        match word.state() {
            State::Absent => PageState::Nowhere,
            State::Shadow => PageState::Out(word.shadow_type()),
            State::Listed => PageState::Listed(self.lru.list_of(word)),
            State::OffList => PageState::OffList(word.folio_type()),
        }
    }

    /// Removes the pages `run`, which are all in the state `place`, and counts them in `gone`.
    fn unmap_run(&mut self, run: Range<u32>, place: PageState, eager: bool, gone: &mut Unmapped) {
        if self.nodes.is_some() {
            for id in run.clone().map(FolioId) {
                self.note_removed(id, self.folios.get(id));
            }
        }
        let nr = u64::from(run.end - run.start);
        match place {
            PageState::Nowhere => {}
            PageState::Out(ty) => {
                self.folios.forget(run);
                self.out[ty.index()] -= nr;
                gone.out[ty.index()].0 += nr;
            }
            PageState::Listed(_) => {
                self.lru.del_run(&mut self.folios, run, eager);
                gone.present.0 += nr;
            }
            PageState::OffList(ty) => {
                self.folios.forget(run);
                self.off_list[ty.index()] -= nr;
                gone.present.0 += nr;
            }
        }
    }
}
