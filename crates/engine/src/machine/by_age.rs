//! Reclaim by age: evicts pages that were not used for a while, whether memory is short or not.
//!
//! Invariants: no more is evicted than was requested; pages effectively below their memcg's min
//! stay.

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
    /// The memcg where the last batch bailed out, the progress there, and what was reclaimed there;
    /// `None` to go on with the next memcg.
    visit: Option<(MemcgId, ByAgeVisit, Shrunk)>,
    pub(super) got: Shrunk,
}

impl ByAge {
    /// Begins a reclaim by age of at most `most` of the target's own pages.
    pub(super) fn own(target: MemcgId, most: Pages) -> Self {
        Self {
            target,
            most,
            ids: alloc::vec![target].into_iter(),
            visit: None,
            got: Shrunk::default(),
        }
    }
}

impl Machine {
    /// Evicts up to `most` pages of `memcg` and all memcgs below it: pages in none of the two
    /// youngest generations that `memory` finds old enough (else [`crate::PageOut::TooYoung`]).
    ///
    /// A page of the oldest generation that a walk finds young for the first time only gets a flag
    /// (lru-gen.md 3), and aging clears the flag. A memory that knows each access therefore calls
    /// [`crate::Lruvec::young`] twice, which moves the page to the youngest generation. If a whole
    /// batch of a memcg could not be evicted for a reason other than the pages' own state, that
    /// memcg is skipped for the rest of this reclaim. No effect under the classic policy, which
    /// knows no ages.
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
            let nr = by_age.most.less(by_age.got.reclaimed);
            let visit = by_age.visit.take();
            let next = || by_age.ids.next().map(|id| (id, None));
            let visit = visit.map(|(id, visit, got)| (id, Some((visit, got))));
            let Some((id, begun)) = visit.or_else(next).filter(|_| nr > Pages(0)) else {
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
                before: begun.map(|(_, got)| got),
                ..self.scan_control(id, request, DEF_PRIORITY)
            };
            let fresh = ByAgeVisit {
                turns: self.lruvec(id).resident().0,
                place: ByAgeCursor::default(),
            };
            let (mut visit, mut got) = begun.unwrap_or((fresh, Shrunk::default()));
            let shrunk = self.account_pass(id, &sc, |lruvec, sc| {
                shrink_by_age((id, lruvec), sc, &mut visit, memory)
            });
            got.add(shrunk);
            by_age.got.add(shrunk);
            by_age.got.visited += u64::from(begun.is_none());
            by_age.visit = shrunk.bailed_out.then_some((id, visit, got));
            self.release_if_empty(id);
            if shrunk.bailed_out || memory.wants_pause() {
                return false;
            }
        }
    }

    /// Calls [`Self::reclaim_by_age`] for `memcg`'s own pages alone. The memcg's own min and low do
    /// not protect them: the caller must limit `most` ([`Self::unprotected`]).
    pub fn reclaim_own_by_age<M: Memory>(
        &mut self,
        memcg: MemcgId,
        most: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        self.finish_by_age(ByAge::own(memcg, most), now, memory)
    }

    /// Continues a reclaim by age to its end, without pauses; returns what it did.
    fn finish_by_age<M: Memory>(
        &mut self,
        mut by_age: ByAge,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        while !self.go_on_by_age(&mut by_age, now, memory) {}
        by_age.got
    }
}

#[cfg(test)]
mod tests;
