//! The three phases of reclaim as separate calls: isolate, page out (by the caller), finish. Only
//! the engine's own tests and its bench `touch` use them, with the feature `phases`. Host and
//! simulator reclaim through [`crate::Memory`].

use super::Machine;
use super::aging::isolate_coldest;
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{ByAgeCursor, Isolated};
use crate::memcg::MemcgId;
use crate::units::Pages;
use crate::vmscan::{PageEnd, PageOut, ScanReason};
use alloc::vec::Vec;

impl Machine {
    /// Isolates up to `nr` of the coldest pages of `memcg` into `out`, coldest first; fewer when
    /// too few are old enough. The pages stay charged until the caller passes them to
    /// [`Self::finish_page`].
    pub fn isolate(
        &mut self,
        memcg: MemcgId,
        nr: usize,
        reason: ScanReason,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let swappiness = self.swappiness(memcg, None);
        self.set_target(memcg, memcg);
        isolate_coldest(self.lruvec_mut(memcg), nr, (reason, swappiness), out)
    }

    /// Calls [`crate::Lruvec::isolate_by_age`] for `memcg`; the pages stay charged, as in
    /// [`Self::isolate`].
    pub fn isolate_by_age(
        &mut self,
        memcg: MemcgId,
        (nr, place): (usize, &mut ByAgeCursor),
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let swappiness = self.swappiness(memcg, None);
        let lruvec = self.lruvec_mut(memcg);
        lruvec.isolate_by_age(swappiness, (nr, place), out)
    }

    /// Finishes an isolated page as its `outcome` requires: evicted, or put back.
    pub fn finish_page(
        &mut self,
        memcg: MemcgId,
        id: FolioId,
        (outcome, reason): (PageOut, ScanReason),
    ) -> PageEnd {
        let ty = self.lruvec(memcg).folios().get(id).folio_type();
        self.set_target(memcg, memcg);
        let end = self.lruvec_mut(memcg).finish_page(id, outcome, reason);
        let is_paged_out = matches!(end, PageEnd::Left | PageEnd::Taken);
        if is_paged_out || end == PageEnd::Forgotten {
            self.tree.uncharge(0, memcg, Pages(1));
        }
        if is_paged_out {
            let swapped = u64::from(ty == FolioType::Anon);
            self.tree.charge_swap(memcg, Pages(swapped));
        }
        end
    }

    /// Records that a batch of isolated pages was evicted; returns the number that were still
    /// isolated.
    pub fn evicted_all(&mut self, memcg: MemcgId, ids: &[FolioId], reason: ScanReason) -> Pages {
        self.set_target(memcg, memcg);
        let [anon, file] = self.lruvec_mut(memcg).evicted_all(ids, reason);
        let total = Pages(anon.0 + file.0);
        self.tree.uncharge(0, memcg, total);
        self.tree.charge_swap(memcg, anon);
        total
    }
}
