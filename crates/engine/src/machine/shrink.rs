//! One pass over one lruvec, and the update of charges and events by its result. Every kind of
//! reclaim takes its pages here.
//!
//! Invariant: after `memory` has reported that no swap is free, no anon page of any memcg is chosen
//! until time has advanced. A reclaim that is not paused has a single time, so this holds at least
//! until its end.

use super::{Machine, ReclaimRequest};
use crate::folio::FolioType;
use crate::lruvec::{Lruvec, Policy};
use crate::memcg::{MemcgEvent, MemcgId, ScanProtection};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Memory, ScanControl, ScanReason, Shrunk, shrink_lruvec, usable_swappiness};

impl Machine {
    pub(super) fn swappiness(&self, id: MemcgId, wanted: Option<Swappiness>) -> Swappiness {
        let wanted = wanted.unwrap_or(self.tree.get(id).swappiness());
        let slots = self.tree.swap_available(id);
        match self.config.policy {
            // One free slot is enough: a batch takes no more pages than there are free slots
            // ([`Lruvec::keep_unswappable`]).
            Policy::ActiveInactive(..) if slots > Pages(0) => wanted,
            _ => usable_swappiness(wanted, slots),
        }
    }

    /// Returns the parameters with which a pass over `id` starts.
    pub(super) fn scan_control(
        &self,
        id: MemcgId,
        request: ReclaimRequest,
        priority: u32,
    ) -> ScanControl {
        let knows_no_swap = self.no_swap == Some(request.now);
        let swappiness = if knows_no_swap {
            Swappiness::FILE_ONLY
        } else {
            self.swappiness(id, request.swappiness)
        };
        ScanControl {
            priority,
            has_swap: !knows_no_swap && self.tree.swap_available(id) > Pages(0),
            online: self.tree.is_online(id),
            batch: self.config.batch,
            node: self.node,
            reduction: self.config.scan_reduction,
            ..ScanControl::new(request.reason, request.nr, swappiness, request.now)
        }
    }

    /// Whether a reclaim for `reason` never takes more than the request; see
    /// [`ScanControl::is_exact`].
    pub(super) fn is_exact(&self, reason: ScanReason) -> bool {
        let none = ScanControl::new(reason, Pages(0), Swappiness::default(), Millis(0));
        let batch = self.config.batch;
        ScanControl { batch, ..none }.is_exact()
    }

    /// Whether a pass over `id` skips its anon pages for lack of swap.
    fn lacks_swap(&self, id: MemcgId) -> bool {
        let wanted = self.tree.get(id).swappiness();
        let lruvec = self.lruvec(id);
        self.swappiness(id, None) != wanted
            && lruvec.evictable_total(Swappiness::ANON_ONLY) > Pages(0)
    }

    /// Counts that a pass kept anon pages of `id` in memory for lack of swap; called once a pass.
    /// Counts the swap events MAX and FAIL at the memcg whose memory.swap.max is exhausted; if the
    /// machine has no more swap, counts FAIL at `id`.
    fn swap_failed(&mut self, id: MemcgId) {
        let available = |&id: &MemcgId| self.tree.get(id).swap_available();
        match self.tree.ancestors(id).min_by_key(available) {
            Some(limiting) if limiting != MemcgId::ROOT => {
                self.tree.event(limiting, MemcgEvent::SwapMax);
                self.tree.event(limiting, MemcgEvent::SwapFail);
            }
            _ => self.tree.event(id, MemcgEvent::SwapFail),
        }
    }

    /// Returns how many pages of `id` are protected from reclaim of `target`; `None` if none are.
    /// The caller has computed the effective protection of `id`.
    pub(super) fn protection(
        &self,
        (target, id): (MemcgId, MemcgId),
        low_reclaim: bool,
    ) -> Option<ScanProtection> {
        let memcg = Some(self.tree.get(id)).filter(|_| id != target && id != MemcgId::ROOT)?;
        ScanProtection::new(memcg.held(), memcg.protection(), low_reclaim)
    }

    /// Makes one pass over the lruvec of `id`, for a reclaim of `target`.
    pub(super) fn shrink<M: Memory>(
        &mut self,
        (target, id): (MemcgId, MemcgId),
        sc: &ScanControl,
        memory: &mut M,
    ) -> Shrunk {
        self.set_target(id, target);
        self.account_pass(id, sc, |lruvec, sc| shrink_lruvec(id, lruvec, sc, memory))
    }

    /// Calls `pass` for the lruvec of `id`, and updates charges and events by its result.
    pub(super) fn account_pass(
        &mut self,
        id: MemcgId,
        sc: &ScanControl,
        pass: impl FnOnce(&mut Lruvec, &ScanControl) -> Shrunk,
    ) -> Shrunk {
        let available = self.tree.swap_available(id);
        // In a resumed pass the lack of swap was counted before the pause.
        let lacks_swap = sc.before.is_none() && self.lacks_swap(id);
        let is_counted = |before: Shrunk| before.no_swap || before.unswapped > 0;
        let is_counted = sc.before.is_some_and(is_counted);
        let knows_no_swap = self.no_swap == Some(sc.now);
        let lruvec = self.lruvec_mut(id);
        if knows_no_swap && lruvec.evictable_total(Swappiness::FILE_ONLY) == Pages(0) {
            // No page is evictable without swap: an aging walk would be in vain.
            return Shrunk {
                no_swap: true,
                ..Shrunk::default()
            };
        }
        let swapped_before = lruvec.out(FolioType::Anon);
        let most_out = Pages(swapped_before.0.saturating_add(available.0));
        let shrunk = pass(lruvec, &ScanControl { most_out, ..*sc });
        let swapped = lruvec.out(FolioType::Anon).less(swapped_before);
        lruvec.reclaim_shadow_nodes();
        let no_longer_present = Pages(shrunk.reclaimed.0 + shrunk.forgotten.0);
        if no_longer_present > Pages(0) {
            self.tree.uncharge(0, id, no_longer_present);
        }
        self.tree.charge_swap(id, swapped);
        if shrunk.no_swap {
            self.no_swap = Some(sc.now);
        }
        if is_counted {
            return shrunk;
        }
        if shrunk.no_swap {
            self.tree.event(id, MemcgEvent::SwapFail);
        } else if lacks_swap || shrunk.unswapped > 0 {
            self.swap_failed(id);
        }
        shrunk
    }
}

#[cfg(test)]
pub(super) mod tests;
