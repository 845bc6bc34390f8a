//! Operations of a lruvec with the classic policy only, with the update of its statistics.

use super::Lruvec;
use super::policy::Lru;
use crate::active_inactive::ActiveInactive;
use crate::folio::{FolioId, FolioTable, FolioType, Recency};
use crate::units::SWAP_CLUSTER_MAX;
use crate::vmstat::{ScanReason, VmEvent};
use alloc::vec::Vec;

impl Lruvec {
    /// Returns the active and inactive lists; `None` if the policy is the multi-gen LRU.
    #[must_use]
    pub const fn classic(&self) -> Option<&ActiveInactive> {
        match &self.lru {
            Lru::Classic(lru) => Some(lru),
            Lru::MultiGen(_) => None,
        }
    }

    pub(crate) const fn classic_mut(&mut self) -> Option<&mut ActiveInactive> {
        match &mut self.lru {
            Lru::Classic(lru) => Some(lru),
            Lru::MultiGen(_) => None,
        }
    }

    const fn classic_parts(&mut self) -> Option<(&mut ActiveInactive, &mut FolioTable)> {
        match &mut self.lru {
            Lru::Classic(lru) => Some((lru, &mut self.folios)),
            Lru::MultiGen(_) => None,
        }
    }

    /// Deactivates up to `nr` pages of `ty` from the tail of the active list, as if all their
    /// mappings had recency. Returns the number of pages scanned.
    pub(crate) fn shrink_active(&mut self, ty: FolioType, nr: u64) -> u64 {
        self.shrink_active_mapped((ty, nr), &|_| true)
    }

    /// Deactivates as [`Self::shrink_active`] does, but `recency` says which pages' mappings have
    /// recency.
    pub(crate) fn shrink_active_mapped(
        &mut self,
        (ty, nr): (FolioType, u64),
        recency: Recency<'_>,
    ) -> u64 {
        let Some((lru, folios)) = self.classic_parts() else {
            return 0;
        };
        let step = lru.shrink_active(folios, (ty, nr), recency);
        self.stat.add(VmEvent::Pgrefill, step.scanned);
        self.stat.add(VmEvent::Pgdeactivate, step.moved);
        self.off_list[ty.index()] += step.unevictable;
        step.scanned
    }

    /// Scans up to `nr` inactive pages of `ty`, as if all their mappings had recency, and appends
    /// the evictable ones to `out`. Returns the number of pages scanned.
    pub(crate) fn isolate_inactive(
        &mut self,
        reason: ScanReason,
        ty: FolioType,
        nr: u64,
        out: &mut Vec<FolioId>,
    ) -> u64 {
        self.isolate_inactive_mapped(reason, (ty, nr), &|_| true, out)
    }

    /// Isolates as [`Self::isolate_inactive`] does, but `recency` says which pages' mappings have
    /// recency.
    pub(crate) fn isolate_inactive_mapped(
        &mut self,
        reason: ScanReason,
        (ty, nr): (FolioType, u64),
        recency: Recency<'_>,
        out: &mut Vec<FolioId>,
    ) -> u64 {
        let before = out.len();
        let Some((lru, folios)) = self.classic_parts() else {
            return 0;
        };
        let step = lru.isolate_inactive(folios, (ty, nr), recency, out);
        lru.bound_tombstones(folios);
        self.stat.scanned(reason, ty, step.scanned);
        self.stat.add(VmEvent::Pgactivate, step.moved);
        self.off_list[ty.index()] += step.unevictable + (out.len() - before) as u64;
        step.scanned
    }

    /// Deactivates a batch of anon pages if their inactive list is low. Called after each pass that
    /// may swap. (The kernel does it also when swap is full.)
    pub(crate) fn age_anon(&mut self, recency: Recency<'_>) {
        let low = self
            .classic()
            .is_some_and(|lru| lru.is_low(FolioType::Anon));
        if low {
            self.shrink_active_mapped((FolioType::Anon, SWAP_CLUSTER_MAX), recency);
        }
    }
}
