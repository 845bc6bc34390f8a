//! What only a classic lruvec can do, with its accounts.

use super::Lruvec;
use super::policy::Lru;
use crate::active_inactive::ActiveInactive;
use crate::folio::{FolioId, FolioTable, FolioType, Recency};
use crate::units::SWAP_CLUSTER_MAX;
use crate::vmstat::{ScanReason, VmEvent};
use alloc::vec::Vec;

impl Lruvec {
    /// The active and inactive lists, if that is the policy.
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

    /// Deactivates up to `nr` pages of `ty`, all of them mapped with recency; returns the pages looked at.
    pub(crate) fn shrink_active(&mut self, ty: FolioType, nr: u64) -> u64 {
        self.shrink_active_mapped((ty, nr), &|_| true)
    }

    /// [`Self::shrink_active`] where `recency` tells of each page's mapping.
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

    /// Isolates what may go among up to `nr` inactive pages of `ty`, all of them mapped with recency;
    /// returns the pages looked at.
    pub(crate) fn isolate_inactive(
        &mut self,
        reason: ScanReason,
        ty: FolioType,
        nr: u64,
        out: &mut Vec<FolioId>,
    ) -> u64 {
        self.isolate_inactive_mapped(reason, (ty, nr), &|_| true, out)
    }

    /// [`Self::isolate_inactive`] where `recency` tells of each page's mapping.
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

    /// After a pass that may swap, anon is aged once more when its inactive list is low. (The kernel does so where there is
    /// swap that is full, too.)
    pub(crate) fn age_anon(&mut self, recency: Recency<'_>) {
        let low = self
            .classic()
            .is_some_and(|lru| lru.is_low(FolioType::Anon));
        if low {
            self.shrink_active_mapped((FolioType::Anon, SWAP_CLUSTER_MAX), recency);
        }
    }
}
