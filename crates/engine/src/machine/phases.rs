//! Aging without reclaim, and the three phases one by one. The phases are for tests and the bench `touch`: host and
//! simulator reclaim through [`crate::Memory`].

use super::{Machine, ReclaimRequest};
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{DEF_PRIORITY, IsolateBudget, Isolated, LruGen};
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Batch, Memory, PageOut, ScanReason, Settled, Shrunk};
use alloc::vec::Vec;

/// Isolates up to `nr` of the coldest pages, coldest first.
fn isolate_coldest(
    lruvec: &mut Lruvec,
    nr: usize,
    (reason, swappiness): (ScanReason, Swappiness),
    out: &mut Vec<FolioId>,
) -> Isolated {
    let (before, mut total) = (out.len(), Isolated::default());
    while out.len() - before < nr {
        let budget = IsolateBudget::up_to(nr - (out.len() - before));
        let done = lruvec.isolate(reason, swappiness, budget, out);
        total.add(done);
        if done.scanned == 0 {
            break;
        }
    }
    total
}

impl Machine {
    /// Opens a new generation of `memcg`'s own pages; call it after the walk. What was not young is now
    /// one older. Nothing to do under the classic policy.
    pub fn age(&mut self, memcg: MemcgId, now: Millis) {
        let swappiness = self.swappiness(memcg, None);
        let lruvec = self.lruvec_mut(memcg);
        if let Some(seq) = lruvec.multi_gen().map(LruGen::max_seq) {
            lruvec.inc_max_seq(seq, swappiness, now);
        }
    }

    /// Walks `memcg`'s own pages and ages, once.
    pub fn walk_and_age<M: Memory>(&mut self, memcg: MemcgId, now: Millis, memory: &mut M) {
        memory.walk(memcg, self.lruvec_mut(memcg));
        self.age(memcg, now);
    }

    /// Evicts up to `nr` of the coldest pages of `memcg` in one batch, without aging: when `scanned` is 0
    /// nothing is old enough.
    pub fn evict_coldest<M: Memory>(
        &mut self,
        memcg: MemcgId,
        nr: usize,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        let request = ReclaimRequest {
            reason: ScanReason::Direct,
            nr: Pages(nr as u64),
            swappiness: None,
            now,
        };
        let sc = self.scan_control(memcg, request, DEF_PRIORITY);
        self.face(memcg, memcg);
        self.account_pass(memcg, &sc, |lruvec, sc| {
            let mut batch = Batch::with_room(nr);
            let how = (sc.reason, sc.swappiness);
            let done = isolate_coldest(lruvec, nr, how, &mut batch.pages);
            Shrunk {
                scanned: done.scanned as u64,
                ..batch.page_out((memcg, lruvec), sc, memory)
            }
        })
    }

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

    /// [`Lruvec::isolate_older_than`] for `memcg`, as [`Self::isolate`].
    pub fn isolate_older_than(
        &mut self,
        memcg: MemcgId,
        (age, now): (Millis, Millis),
        nr: usize,
        out: &mut Vec<FolioId>,
    ) -> Isolated {
        let swappiness = self.swappiness(memcg, None);
        let lruvec = self.lruvec_mut(memcg);
        lruvec.isolate_older_than((age, now), swappiness, nr, out)
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
