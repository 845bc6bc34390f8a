//! The three phases one by one, for the engine's own tests and its bench `touch`, which switch the feature `phases` on: nobody else
//! has them. Host and simulator reclaim through [`crate::Memory`].

use super::Machine;
use super::aging::isolate_coldest;
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{ByAgePlace, Isolated};
use crate::memcg::MemcgId;
use crate::units::Pages;
use crate::vmscan::{PageOut, ScanReason, Settled};
use alloc::vec::Vec;

impl Machine {
    /// Isolates up to `nr` of the coldest pages of `memcg` into `out`, coldest first; fewer when fewer
    /// are old enough. They stay charged until they are settled.
    pub fn isolate(
        &mut self,
        memcg: MemcgId,
        nr: usize,
        reason: ScanReason,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let swappiness = self.swappiness(memcg, None);
        self.face(memcg, memcg);
        isolate_coldest(self.lruvec_mut(memcg), nr, (reason, swappiness), out)
    }

    /// [`crate::Lruvec::isolate_by_age`] for `memcg`, as [`Self::isolate`].
    pub fn isolate_by_age(
        &mut self,
        memcg: MemcgId,
        (nr, place): (usize, &mut ByAgePlace),
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let swappiness = self.swappiness(memcg, None);
        let lruvec = self.lruvec_mut(memcg);
        lruvec.isolate_by_age(swappiness, (nr, place), out)
    }

    /// Does what `outcome` asks for with an isolated page.
    pub fn settle(
        &mut self,
        memcg: MemcgId,
        id: FolioId,
        (outcome, reason): (PageOut, ScanReason),
    ) -> Settled {
        let ty = self.lruvec(memcg).folios().get(id).folio_type();
        self.face(memcg, memcg);
        let settled = self.lruvec_mut(memcg).settle(id, outcome, reason);
        let is_out = matches!(settled, Settled::Left | Settled::Taken);
        if is_out || settled == Settled::Forgotten {
            self.tree.uncharge(0, memcg, Pages(1));
        }
        if is_out {
            let swapped = u64::from(ty == FolioType::Anon);
            self.tree.charge_swap(memcg, Pages(swapped));
        }
        settled
    }

    /// A whole batch of isolated pages has left; returns how many were isolated still.
    pub fn evicted_all(&mut self, memcg: MemcgId, ids: &[FolioId], reason: ScanReason) -> Pages {
        self.face(memcg, memcg);
        let [anon, file] = self.lruvec_mut(memcg).evicted_all(ids, reason);
        let left = Pages(anon.0 + file.0);
        self.tree.uncharge(0, memcg, left);
        self.tree.charge_swap(memcg, anon);
        left
    }
}
