//! Pages that their program removed, by ranges: pages that follow each other and are at the same place
//! are taken from it together, with one update of each account.
//!
//! Invariant: whatever is removed at once ends as if it had been removed page by page.

use super::{Lruvec, Unmapped};
use crate::folio::{FolioId, FolioType};
use crate::word::{State, Word};
use core::ops::Range;

/// Where a page is, as far as the accounts tell places apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    /// Out.
    Out(FolioType),
    /// On the list of that number.
    Listed(usize),
    /// In memory and on no list.
    OffList(FolioType),
}

impl Lruvec {
    /// Pages `start..start + len` were removed by their program: off the lists, no shadow, and
    /// shadows that are there are consumed.
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

    fn place(&self, word: Word) -> Place {
        match word.state() {
            State::Absent => Place::Nowhere,
            State::Shadow => Place::Out(word.shadow_type()),
            State::Listed => Place::Listed(self.lru.list_of(word)),
            State::OffList => Place::OffList(word.folio_type()),
        }
    }

    /// Takes away pages that are all at the same place.
    fn unmap_run(&mut self, run: Range<u32>, place: Place, eager: bool, gone: &mut Unmapped) {
        if self.nodes.is_some() {
            for id in run.clone().map(FolioId) {
                self.note_removed(id, self.folios.get(id));
            }
        }
        let nr = u64::from(run.end - run.start);
        match place {
            Place::Nowhere => {}
            Place::Out(ty) => {
                self.folios.forget(run);
                self.out[ty.index()] -= nr;
                gone.out[ty.index()].0 += nr;
            }
            Place::Listed(_) => {
                self.lru.del_run(&mut self.folios, run, eager);
                gone.present.0 += nr;
            }
            Place::OffList(ty) => {
                self.folios.forget(run);
                self.off_list[ty.index()] -= nr;
                gone.present.0 += nr;
            }
        }
    }
}
