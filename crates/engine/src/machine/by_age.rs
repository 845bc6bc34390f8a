//! Reclaim by age: what nobody has used for a while leaves, whether memory is short or not.
//!
//! Invariants: no more than was asked for leaves; what is effectively below its min stays.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::{ByAgePlace, DEF_PRIORITY};
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::vmscan::{ByAgeVisit, Memory, ScanControl, ScanReason, Shrunk, shrink_by_age};
use alloc::vec::IntoIter;

/// A reclaim by age, between two batches.
#[derive(Debug)]
pub(super) struct ByAge {
    target: MemcgId,
    most: Pages,
    ids: IntoIter<MemcgId>,
    /// The memcg that it bailed out of, how far it had come there, and what it got of that.
    visit: Option<(MemcgId, ByAgeVisit, Shrunk)>,
    pub(super) got: Shrunk,
}

impl ByAge {
    /// Of the target's own pages alone.
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
    /// Evicts up to `most` pages of `memcg` and all below it that are in none of the two youngest generations, and that memory finds old
    /// enough ([`crate::PageOut::TooYoung`]). A page of the oldest generation that a walk finds young for the first time is
    /// only marked there (lru-gen.md 3), and aging clears the mark: a memory that knows each access tells
    /// [`crate::Lruvec::young`] twice, which moves it to the youngest. A memcg of which a whole batch could not
    /// go for a reason that is not its pages' own is left alone for this time.
    /// Nothing under the classic policy, which knows no ages.
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

    /// Goes on until nothing is left to take (true) or memory wants a pause.
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
            let request = ReclaimRequest {
                reason: ScanReason::Proactive,
                nr,
                swappiness: None,
                now,
            };
            let sc = ScanControl {
                before: begun.map(|(_, got)| got),
                ..self.scan_control(id, request, DEF_PRIORITY)
            };
            let fresh = ByAgeVisit {
                turns: self.lruvec(id).resident().0,
                place: ByAgePlace::default(),
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

    /// The same of `memcg`'s own pages alone, whatever protects it: how much may go is the caller's to know
    /// ([`Self::unprotected`]).
    pub fn reclaim_own_by_age<M: Memory>(
        &mut self,
        memcg: MemcgId,
        most: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        self.finish_by_age(ByAge::own(memcg, most), now, memory)
    }

    /// Goes on until nothing is left to take, whatever pauses memory wants.
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
