//! Pages that fault in, are removed, or are swapped out by the kernel, with their charges.
//!
//! Invariant: a present page is charged to its memcg's memory, a swapped-out anon page to its
//! memcg's swap.

use super::Machine;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Unmapped};
use crate::memcg::{MemcgId, OverMax};
use crate::units::Pages;
use crate::word::State;
use crate::workingset::Refault;

impl Machine {
    /// Charges `nr` pages to `id` if they fit below the memory.max of `id` and of every memcg above
    /// it.
    ///
    /// # Errors
    /// [`OverMax`] with the memcg whose memory.max would be exceeded.
    pub fn try_charge(&mut self, id: MemcgId, nr: Pages) -> Result<(), OverMax> {
        self.tree.try_charge(0, id, nr)
    }

    /// Records that a page faulted in, and charges it. The page is in memory already, so it is
    /// charged even if that exceeds a limit. `has_recency` is the result of the kernel's
    /// `vma_has_recency` for the page's VMA. Returns what the page's shadow says about the refault;
    /// `None` if the page has no shadow. If the page was present already, it counts as accessed.
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
        let may_swap = word.state() == State::Shadow && self.set_target_of_refault(memcg, id);
        self.lruvec_mut(memcg)
            .fault_in(id, ty, kind, has_recency, may_swap)
    }

    /// Records that a tenant's program removed the pages `start..start + len`.
    pub fn unmap_range(&mut self, memcg: MemcgId, start: FolioId, len: usize) -> Unmapped {
        let unmapped = self.lruvec_mut(memcg).unmap_range(start, len);
        if unmapped.present > Pages(0) {
            self.tree.uncharge(0, memcg, unmapped.present);
        }
        self.tree
            .uncharge_swap(memcg, unmapped.out[FolioType::Anon.index()]);
        self.release_if_empty(memcg);
        unmapped
    }

    /// Moves a tenant's page to another id; returns false if the page keeps its id (see
    /// [`crate::Lruvec::rename`]).
    pub fn rename(&mut self, memcg: MemcgId, from: FolioId, to: FolioId) -> bool {
        self.lruvec_mut(memcg).rename(from, to)
    }

    /// Records that the kernel's own reclaim swapped out a tenant's page. As after an eviction by
    /// the engine, the page has a shadow and is charged to swap; but it is not counted as stolen.
    /// Returns false when the page was not present.
    pub fn left(&mut self, memcg: MemcgId, id: FolioId) -> bool {
        self.set_target(memcg, memcg);
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
