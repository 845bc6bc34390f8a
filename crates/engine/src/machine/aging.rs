//! Aging without reclaim, and reclaim of one batch without aging: for a caller that decides when
//! each happens.

use super::{Machine, ReclaimRequest};
use crate::folio::FolioId;
use crate::lru_gen::{DEF_PRIORITY, IsolateBudget, Isolated, LruGen};
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Batch, Memory, ScanReason, Shrunk};
use alloc::vec::Vec;

/// Isolates up to `nr` of the lruvec's coldest pages into `out`, coldest first.
pub(super) fn isolate_coldest(
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
    /// Opens a new generation for the own pages of `memcg`. The caller has walked them before.
    /// Pages that the walk did not find young are then one generation older. No effect under the
    /// classic policy.
    pub fn age(&mut self, memcg: MemcgId, now: Millis) {
        let swappiness = self.swappiness(memcg, None);
        let lruvec = self.lruvec_mut(memcg);
        if let Some(seq) = lruvec.multi_gen().map(LruGen::max_seq) {
            lruvec.inc_max_seq(seq, swappiness, now);
        }
    }

    /// Calls [`Self::age`], unless all pages are in the oldest generation: these would all move
    /// together, and generations would still not distinguish them. The host calls this after each
    /// regular scan.
    pub fn age_after_scan(&mut self, memcg: MemcgId, now: Millis) {
        let generations = self.lruvec(memcg).multi_gen();
        if !generations.is_some_and(LruGen::is_all_oldest) {
            self.age(memcg, now);
        }
    }

    /// Walks `memcg`'s own pages, then opens a new generation.
    pub fn walk_and_age<M: Memory>(&mut self, memcg: MemcgId, now: Millis, memory: &mut M) {
        memory.walk(memcg, self.lruvec_mut(memcg));
        self.age(memcg, now);
    }

    /// Evicts up to `nr` of the coldest pages of `memcg` in one batch, without aging. `scanned` is
    /// 0 in the result if no page is old enough.
    pub fn evict_coldest<M: Memory>(
        &mut self,
        memcg: MemcgId,
        nr: usize,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        let request = ReclaimRequest::new(ScanReason::Direct, Pages(nr as u64), now);
        let sc = self.scan_control(memcg, request, DEF_PRIORITY);
        self.set_target(memcg, memcg);
        self.account_pass(memcg, &sc, |lruvec, sc| {
            let mut batch = Batch::with_capacity(nr);
            let reason_and_swappiness = (sc.reason, sc.swappiness);
            let done = isolate_coldest(lruvec, nr, reason_and_swappiness, &mut batch.pages);
            Shrunk {
                scanned: done.scanned as u64,
                ..batch.page_out((memcg, lruvec), sc, memory)
            }
        })
    }
}
