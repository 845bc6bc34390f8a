//! One pass over one lruvec, with its accounts and events: what all reclaim comes down to.
//!
//! Invariant: after memory has said that there is no swap, no anon page of anybody is asked for until
//! time has gone on. A reclaim happens at one point in time, so this is at least until its end.

use super::{Machine, ReclaimRequest};
use crate::folio::FolioType;
use crate::lruvec::{Lruvec, Policy};
use crate::memcg::{MemcgEvent, MemcgId, ScanProtection};
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Memory, ScanControl, ScanReason, Shrunk, shrink_lruvec, usable_swappiness};

impl Machine {
    pub(super) fn swappiness(&self, id: MemcgId, set: Option<Swappiness>) -> Swappiness {
        let set = set.unwrap_or(self.tree.get(id).swappiness());
        let slots = self.tree.swap_available(id);
        match self.config.policy {
            // Any slot will do: a batch takes no more than there are ([`Lruvec::keep_unswappable`]).
            Policy::ActiveInactive(..) if slots > Pages(0) => set,
            _ => usable_swappiness(set, slots),
        }
    }

    /// The first scan control of a pass over `id`.
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
            reduction: self.config.scan_reduction,
            ..ScanControl::new(request.reason, request.nr, swappiness, request.now)
        }
    }

    /// [`ScanControl::is_exact`] of a reclaim for `reason`.
    pub(super) fn is_exact(&self, reason: ScanReason) -> bool {
        let none = ScanControl::new(reason, Pages(0), Swappiness::default(), Millis(0));
        let batch = self.config.batch;
        ScanControl { batch, ..none }.is_exact()
    }

    /// True when a pass over `id` leaves its anon pages alone for want of swap.
    fn lacks_swap(&self, id: MemcgId) -> bool {
        let wanted = self.tree.get(id).swappiness();
        let lruvec = self.lruvec(id);
        self.swappiness(id, None) != wanted
            && lruvec.evictable_total(Swappiness::ANON_ONLY) > Pages(0)
    }

    /// A pass left anon pages of `id` where they are, for want of swap: MAX and FAIL at the level
    /// whose swap.max it is; FAIL of `id` when there is no more swap at all. Once a pass.
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

    /// What is protected of `id` from reclaim of `target`, whose effective protection was computed before.
    pub(super) fn protection(
        &self,
        (target, id): (MemcgId, MemcgId),
        low_reclaim: bool,
    ) -> Option<ScanProtection> {
        let memcg = Some(self.tree.get(id)).filter(|_| id != target && id != MemcgId::ROOT)?;
        ScanProtection::new(memcg.held(), memcg.protection(), low_reclaim)
    }

    /// One pass over the lruvec of `id` by need, on behalf of `target`.
    pub(super) fn shrink<M: Memory>(
        &mut self,
        (target, id): (MemcgId, MemcgId),
        sc: &ScanControl,
        memory: &mut M,
    ) -> Shrunk {
        self.face(id, target);
        self.account_pass(id, sc, |lruvec, sc| shrink_lruvec(id, lruvec, sc, memory))
    }

    /// One pass of any kind, `pass`, over the lruvec of `id`.
    pub(super) fn account_pass(
        &mut self,
        id: MemcgId,
        sc: &ScanControl,
        pass: impl FnOnce(&mut Lruvec, &ScanControl) -> Shrunk,
    ) -> Shrunk {
        let available = self.tree.swap_available(id);
        // Of a pass that goes on, what it lacked before was counted.
        let lacks_swap = sc.before.is_none() && self.lacks_swap(id);
        let is_counted = |before: Shrunk| before.no_swap || before.unswapped > 0;
        let is_counted = sc.before.is_some_and(is_counted);
        let knows_no_swap = self.no_swap == Some(sc.now);
        let lruvec = self.lruvec_mut(id);
        if knows_no_swap && lruvec.evictable_total(Swappiness::FILE_ONLY) == Pages(0) {
            // Nothing can go: aging would only walk for nobody.
            return Shrunk {
                no_swap: true,
                ..Shrunk::default()
            };
        }
        let out = lruvec.out(FolioType::Anon);
        let most_out = Pages(out.0.saturating_add(available.0));
        let shrunk = pass(lruvec, &ScanControl { most_out, ..*sc });
        let swapped = lruvec.out(FolioType::Anon).less(out);
        lruvec.reclaim_shadow_nodes();
        let gone = Pages(shrunk.reclaimed.0 + shrunk.forgotten.0);
        if gone > Pages(0) {
            self.tree.uncharge(0, id, gone);
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
