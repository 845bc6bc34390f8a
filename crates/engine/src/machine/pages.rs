//! Pages that come and go without the engine's asking, with their charges.
//!
//! Invariant: a present page is charged to its memcg, an anon page that is out to its swap.

use super::Machine;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Unmapped};
use crate::memcg::{MemcgId, OverMax};
use crate::units::Pages;
use crate::word::State;
use crate::workingset::Refault;

impl Machine {
    /// The pages `nr` would fit below every max above `id`.
    ///
    /// # Errors
    /// [`OverMax`] with the level that forbids it.
    pub fn try_charge(&mut self, id: MemcgId, nr: Pages) -> Result<(), OverMax> {
        self.tree.try_charge(0, id, nr)
    }

    /// A page came in, charged over the limits if need be: it is there already. `has_recency`
    /// is `vma_has_recency` of its VMA. Returns what its shadow told, if it had left one; `None` also for
    /// a page that is there, which was accessed then.
    ///
    /// # Panics
    /// When `id` is beyond what [`crate::Lruvec::ensure`] made valid.
    pub fn fault_in(
        &mut self,
        memcg: MemcgId,
        id: FolioId,
        ty: FolioType,
        kind: FaultKind,
        has_recency: bool,
    ) -> Option<Refault> {
        let word = self.lruvec(memcg).folios().get(id);
        if !word.is_present() {
            if self.tree.try_charge(0, memcg, Pages(1)).is_err() {
                self.tree.charge_forced(memcg, Pages(1));
            }
            self.note_charge(memcg);
        }
        if word.state() == State::Shadow && word.shadow_type() == FolioType::Anon {
            self.tree.uncharge_swap(memcg, Pages(1));
        }
        let swap = word.state() == State::Shadow && self.face_evictor(memcg, id);
        self.lruvec_mut(memcg)
            .fault_in(id, ty, kind, has_recency, swap)
    }

    /// A tenant's pages were removed by their program.
    pub fn unmap_range(&mut self, memcg: MemcgId, start: FolioId, len: usize) -> Unmapped {
        let gone = self.lruvec_mut(memcg).unmap_range(start, len);
        if gone.present > Pages(0) {
            self.tree.uncharge(0, memcg, gone.present);
        }
        self.tree
            .uncharge_swap(memcg, gone.out[FolioType::Anon.index()]);
        self.release_if_empty(memcg);
        gone
    }

    /// A tenant's page is known by another id from now on; false where it keeps its own (see
    /// [`crate::Lruvec::rename`]).
    pub fn rename(&mut self, memcg: MemcgId, from: FolioId, to: FolioId) -> bool {
        self.lruvec_mut(memcg).rename(from, to)
    }

    /// A tenant's page left memory by another's hand: the kernel's own reclaim swapped it out. What it
    /// leaves is what an eviction leaves, a shadow and a charge of swap; but nobody stole it. False when
    /// it was not there.
    pub fn left(&mut self, memcg: MemcgId, id: FolioId) -> bool {
        self.face(memcg, memcg);
        let Some(ty) = self.lruvec_mut(memcg).left(id) else {
            return false;
        };
        self.tree.uncharge(0, memcg, Pages(1));
        self.tree
            .charge_swap(memcg, Pages(u64::from(ty == FolioType::Anon)));
        self.release_if_empty(memcg);
        true
    }
}

#[cfg(test)]
mod tests;
