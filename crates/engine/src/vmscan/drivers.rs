//! Who reclaims, and for how long: the loops around `shrink_lruvec` for one tenant.
//! spec: reclaim-control.md 1 (charge), 4 (memory.reclaim), 5.3 (priorities).
//!
//! Invariant: proactive reclaim raises no event and kills nothing (reclaim-control.md I8).

use super::{Memory, ScanControl, ScanReason, Shrunk, shrink_lruvec};
use crate::engine::Engine;
use crate::folio::FolioType;
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::{MAX_RECLAIM_RETRIES, MemcgEvent};
use crate::units::{Millis, Pages, Swappiness};

/// Fewest pages of a reclaim batch.
pub const SWAP_CLUSTER_MAX: u64 = 32;

/// Reclaim could not make room: somebody must be killed, or the charge must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oom;

/// Proactive reclaim got less than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryAgain {
    /// What it got.
    pub reclaimed: Pages,
}

impl Engine {
    /// Reclaims up to the aim of `sc`, with rising priority: direct reclaim.
    pub fn try_to_free_pages<M: Memory>(&mut self, sc: ScanControl, memory: &mut M) -> Shrunk {
        let total = self.each_priority(sc, memory);
        if total.reclaimed > Pages(0) || !total.kept_active {
            return total;
        }
        let force_deactivate = true;
        let sc = ScanControl {
            force_deactivate,
            ..sc
        };
        self.each_priority(sc, memory)
    }

    fn each_priority<M: Memory>(&mut self, sc: ScanControl, memory: &mut M) -> Shrunk {
        let mut total = Shrunk::default();
        for priority in (0..=DEF_PRIORITY).rev() {
            total.add(self.shrink(ScanControl { priority, ..sc }, memory));
            if total.reclaimed >= sc.nr_to_reclaim {
                break;
            }
        }
        total
    }

    /// One pass at one priority, with its accounts.
    pub fn shrink<M: Memory>(&mut self, sc: ScanControl, memory: &mut M) -> Shrunk {
        let out = self.lruvec.out(FolioType::Anon);
        let (wanted, usable) = (self.memcg.swappiness(), self.swappiness());
        let (active, inactive) = self.lruvec.active_inactive(FolioType::Anon);
        let most_out = Pages(out.0.saturating_add(self.memcg.swap_available().0));
        let shrunk = shrink_lruvec(&mut self.lruvec, &ScanControl { most_out, ..sc }, memory);
        if shrunk.unswapped > 0 || (usable != wanted && active.0 + inactive.0 > 0) {
            self.memcg.swap_failed();
        }
        self.memcg
            .uncharge(Pages(shrunk.reclaimed.0 + shrunk.forgotten.0));
        self.memcg
            .charge_swap(self.lruvec.out(FolioType::Anon).less(out));
        shrunk
    }

    /// memory.reclaim: takes `nr` pages, without pressure. `swappiness` overrides the tenant's.
    ///
    /// # Errors
    /// [`TryAgain`] when 16 passes in a row got nothing before it was enough.
    pub fn proactive_reclaim<M: Memory>(
        &mut self,
        nr: Pages,
        swappiness: Option<Swappiness>,
        now: Millis,
        memory: &mut M,
    ) -> Result<Pages, TryAgain> {
        let (mut reclaimed, mut retries) = (Pages(0), MAX_RECLAIM_RETRIES);
        while reclaimed < nr {
            let batch = Pages((nr.less(reclaimed).0 / 4).max(SWAP_CLUSTER_MAX));
            let usable = self.swappiness();
            let swappiness = swappiness.filter(|_| usable > Swappiness::FILE_ONLY);
            let swappiness = swappiness.unwrap_or(usable);
            let sc = ScanControl::new(ScanReason::Proactive, batch, swappiness, now);
            let got = self.try_to_free_pages(sc, memory).reclaimed;
            reclaimed.0 += got.0;
            if got == Pages(0) {
                retries -= 1;
                if retries == 0 {
                    return Err(TryAgain { reclaimed });
                }
            }
        }
        Ok(reclaimed)
    }

    /// Makes room for `nr` pages below max, as a charge does: MAX once when there is none, then up
    /// to 16 rounds of reclaim, then OOM. A fault of so many pages will then not go over.
    ///
    /// # Errors
    /// [`Oom`] when reclaim could not make room.
    pub fn make_room<M: Memory>(
        &mut self,
        nr: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Result<(), Oom> {
        if self.lacks(nr) == Pages(0) {
            return Ok(());
        }
        self.memcg.event(MemcgEvent::Max);
        for _ in 0..MAX_RECLAIM_RETRIES {
            let want = Pages(self.lacks(nr).0.max(SWAP_CLUSTER_MAX));
            let sc = ScanControl::new(ScanReason::Direct, want, self.swappiness(), now);
            let got = self.try_to_free_pages(sc, memory).reclaimed;
            if self.lacks(nr) == Pages(0) {
                return Ok(());
            }
            if got == Pages(0) {
                break;
            }
        }
        self.memcg.event(MemcgEvent::Oom);
        Err(Oom)
    }

    fn lacks(&self, nr: Pages) -> Pages {
        Pages(self.memcg.usage().0.saturating_add(nr.0)).less(self.memcg.limits().max.pages())
    }
}
