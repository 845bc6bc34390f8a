//! Reclaim by age: evicts pages that have not been used for a given time, although no limit
//! requires it.
//!
//! Invariants: no more is evicted than was requested; pages of memcgs below their effective
//! memory.min stay.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::{ByAgeCursor, DEF_PRIORITY};
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::vmscan::{ByAgeVisit, Memory, ScanControl, ScanReason, Shrunk, shrink_by_age};
use alloc::vec::IntoIter;

/// State of a reclaim by age between two batches.
#[derive(Debug)]
pub(super) struct ByAge {
    target: MemcgId,
    most: Pages,
    ids: IntoIter<MemcgId>,
    /// The memcg whose visit was interrupted, the progress of that visit, and what it reclaimed;
    /// `None` to continue with the next memcg.
    visit: Option<(MemcgId, ByAgeVisit, Shrunk)>,
    pub(super) total: Shrunk,
}

impl ByAge {
    /// Begins a reclaim by age of at most `most` of the target's own pages.
    pub(super) fn own(target: MemcgId, most: Pages) -> Self {
        Self {
            target,
            most,
            ids: alloc::vec![target].into_iter(),
            visit: None,
            total: Shrunk::default(),
        }
    }
}

impl Machine {
    /// Evicts up to `most` pages of `memcg` and all memcgs below it. Pages of the two youngest
    /// generations stay; of each other page `memory` decides whether it is old enough (else it
    /// returns [`crate::PageOut::TooYoung`]).
    ///
    /// When a walk first finds a page of the oldest generation young, it only sets a flag
    /// (lru-gen.md 3), which aging clears. An implementation of [`Memory`] that knows each access
    /// therefore calls [`crate::Lruvec::young`] twice: that moves the page to the youngest
    /// generation. If a whole batch of a memcg could not be evicted for a reason other than the
    /// pages' own state, this reclaim skips the memcg from then on. Has no effect under the classic
    /// policy, which knows no ages.
    pub fn reclaim_by_age<M: Memory>(
        &mut self,
        memcg: MemcgId,
        most: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        let by_age = self.by_age(memcg, most);
        self.finish_by_age(by_age, now, memory)
    }

    fn by_age(&self, target: MemcgId, most: Pages) -> ByAge {
        ByAge {
            ids: self.tree.pre_order(target).into_iter(),
            ..ByAge::own(target, most)
        }
    }

    /// Continues a reclaim by age. Returns true when nothing more can be evicted, false when
    /// `memory` wants a pause.
    pub(super) fn go_on_by_age<M: Memory>(
        &mut self,
        by_age: &mut ByAge,
        now: Millis,
        memory: &mut M,
    ) -> bool {
        let target = by_age.target;
        loop {
            let nr = by_age.most.less(by_age.total.reclaimed);
            let visit = by_age.visit.take();
            let next = || by_age.ids.next().map(|id| (id, None));
            let visit = visit.map(|(id, visit, shrunk_here)| (id, Some((visit, shrunk_here))));
            let Some((id, resumed)) = visit.or_else(next).filter(|_| nr > Pages(0)) else {
                return true;
            };
            if !self.is_below(id, target) {
                continue;
            }
            self.tree.calculate_path(target, id);
            if self.tree.below_min(target, id) {
                continue;
            }
            let request = ReclaimRequest::new(ScanReason::Proactive, nr, now);
            let sc = ScanControl {
                before: resumed.map(|(_, shrunk_here)| shrunk_here),
                ..self.scan_control(id, request, DEF_PRIORITY)
            };
            let fresh = ByAgeVisit {
                turns: self.lruvec(id).resident().0,
                place: ByAgeCursor::default(),
            };
            let (mut visit, mut shrunk_here) = resumed.unwrap_or((fresh, Shrunk::default()));
            let shrunk = self.account_pass(id, &sc, |lruvec, sc| {
                shrink_by_age((id, lruvec), sc, &mut visit, memory)
            });
            shrunk_here.add(shrunk);
            by_age.total.add(shrunk);
            by_age.total.visited += u64::from(resumed.is_none());
            by_age.visit = shrunk.bailed_out.then_some((id, visit, shrunk_here));
            self.release_if_empty(id);
            if shrunk.bailed_out || memory.wants_pause() {
                return false;
            }
        }
    }

    /// Evicts as [`Self::reclaim_by_age`], but only own pages of `memcg`. Its own memory.min and
    /// low do not protect them: the caller must limit `most` to [`Self::unprotected`].
    pub fn reclaim_own_by_age<M: Memory>(
        &mut self,
        memcg: MemcgId,
        most: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        self.finish_by_age(ByAge::own(memcg, most), now, memory)
    }

    /// Runs a reclaim by age to its end, without pauses; returns what it reclaimed.
    fn finish_by_age<M: Memory>(
        &mut self,
        mut by_age: ByAge,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        while !self.go_on_by_age(&mut by_age, now, memory) {}
        by_age.total
    }
}

#[cfg(test)]
mod tests;
