//! Removal of page ranges that a program has unmapped. Successive pages that are on the same list,
//! or all isolated, or all evicted, are removed together, with one update of each count.
//!
//! Invariant: removing a range has the same result as removing its pages one by one.

use super::{Lruvec, Unmapped};
use crate::folio::{FolioId, FolioType};
use crate::word::{State, Word};
use core::ops::Range;

/// State of a page, with the list or the type whose count includes the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageState {
    Absent,
    /// Evicted, of this type.
    Evicted(FolioType),
    /// On the list with this index.
    Listed(usize),
    /// In memory and on no list, of this type.
    OffList(FolioType),
}

impl Lruvec {
    /// Removes the pages `start..start + len`, because their program has unmapped them, and the
    /// shadows of those that were evicted. Returns the numbers of pages.
    pub fn unmap_range(&mut self, start: FolioId, len: usize) -> Unmapped {
        let end = start.index().saturating_add(len).min(self.folios.len());
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        let (mut unmapped, eager) = (Unmapped::default(), len <= 16);
        let mut at = start.0;
        while at < end {
            let state = self.page_state(self.folios.get(FolioId(at)));
            let same = |&id: &u32| self.page_state(self.folios.get(FolioId(id))) == state;
            let run = at..(at + 1..end).find(|id| !same(id)).unwrap_or(end);
            at = run.end;
            self.unmap_run(run, state, eager, &mut unmapped);
        }
        self.lru.bound_tombstones(&mut self.folios);
        unmapped
    }

    fn page_state(&self, word: Word) -> PageState {
        match word.state() {
            State::Absent => PageState::Absent,
            State::Shadow => PageState::Evicted(word.shadow_type()),
            State::Listed => PageState::Listed(self.lru.list_of(word)),
            State::OffList => PageState::OffList(word.folio_type()),
        }
    }

    /// Removes the pages `run`, which are all in the state `state`, and counts them in `unmapped`.
    fn unmap_run(
        &mut self,
        run: Range<u32>,
        state: PageState,
        eager: bool,
        unmapped: &mut Unmapped,
    ) {
        if self.nodes.is_some() {
            for id in run.clone().map(FolioId) {
                self.note_removed(id, self.folios.get(id));
            }
        }
        let nr = u64::from(run.end - run.start);
        match state {
            PageState::Absent => {}
            PageState::Evicted(ty) => {
                self.folios.forget(run);
                self.out[ty.index()] -= nr;
                unmapped.out[ty.index()].0 += nr;
            }
            PageState::Listed(_) => {
                self.lru.del_run(&mut self.folios, run, eager);
                unmapped.present.0 += nr;
            }
            PageState::OffList(ty) => {
                self.folios.forget(run);
                self.off_list[ty.index()] -= nr;
                unmapped.present.0 += nr;
            }
        }
    }
}
