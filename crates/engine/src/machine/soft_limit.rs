//! Soft limits: who is above its own gives first. spec: reclaim-control.md 3; memcg-lru.md 3.
//!
//! Charges are sampled: a memcg is looked at once in [`SOFT_LIMIT_EVENTS`] pages charged. Under the
//! multi-gen LRU it then goes to the head of its bin of the memcg LRU, and that is all, whichever walk
//! reclaims the root. Under the classic one it and its ancestors are kept by excess, and direct and
//! background reclaim of the root begin with the largest; memory.reclaim does not.
//!
//! Invariant: every memcg with an excess when it was looked at last is in the order once, under that
//! excess, until its reclaim gets nothing; nobody else is.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::MemcgId;
use crate::units::Pages;
use crate::vmscan::{Memory, ScanControl, ScanReason, Shrunk};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Pages charged between two looks. The specification names no number.
pub const SOFT_LIMIT_EVENTS: u32 = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    charged: u32,
    /// The excess at the last look.
    excess: u64,
}

/// What was seen of soft limits.
#[derive(Debug, Default)]
pub(super) struct SoftLimits {
    /// Some memcg has one.
    in_use: bool,
    samples: Vec<Sample>,
    by_excess: BTreeSet<(u64, MemcgId)>,
}

impl SoftLimits {
    pub(super) const fn set_in_use(&mut self) {
        self.in_use = true;
    }

    fn sample(&mut self, id: MemcgId) -> &mut Sample {
        if self.samples.len() <= id.index() {
            self.samples.resize(id.index() + 1, Sample::default());
        }
        &mut self.samples[id.index()]
    }

    /// A page was charged to `id`: whether it is time to look at it.
    fn is_due(&mut self, id: MemcgId) -> bool {
        if !self.in_use {
            return false;
        }
        let sample = self.sample(id);
        sample.charged = (sample.charged + 1) % SOFT_LIMIT_EVENTS;
        sample.charged == 0
    }

    fn set(&mut self, id: MemcgId, excess: u64) {
        let old = core::mem::replace(&mut self.sample(id).excess, excess);
        self.by_excess.remove(&(old, id));
        if excess > 0 {
            self.by_excess.insert((excess, id));
        }
    }

    pub(super) fn forget(&mut self, id: MemcgId) {
        if self.in_use {
            self.set(id, 0);
            *self.sample(id) = Sample::default();
        }
    }

    pub(super) fn check(&self) {
        let samples = (0u32..).zip(&self.samples);
        let over = samples.filter(|(_, sample)| sample.excess > 0);
        let mut expect: Vec<_> = over.map(|(id, l)| (l.excess, MemcgId(id))).collect();
        expect.sort_unstable();
        assert!(self.by_excess.iter().eq(&expect), "order of excess");
    }
}

impl Machine {
    fn excess(&self, id: MemcgId) -> Pages {
        let memcg = self.tree.get(id);
        memcg.usage().less(memcg.limits().soft.pages())
    }

    /// The usage of `id` was measured: as one of the looks that charges are sampled by.
    pub(super) fn note_measured(&mut self, id: MemcgId) {
        let is_over = self.soft.in_use && self.excess(id) > Pages(0);
        if is_over && self.lruvec(id).classic().is_none() {
            self.memcg_lru.soft_limit_exceeded(id);
        }
    }

    /// A page was charged to `id`.
    pub(super) fn note_charge(&mut self, id: MemcgId) {
        if !self.soft.is_due(id) {
            return;
        }
        if self.lruvec(id).classic().is_none() {
            if self.excess(id) > Pages(0) {
                self.memcg_lru.soft_limit_exceeded(id);
            }
            return;
        }
        let mut at = Some(id);
        while let Some(id) = at {
            self.soft.set(id, self.excess(id).0);
            at = self.tree.parent(id);
        }
    }

    /// Takes from those above their soft limit, the largest excess first, down to the limit: until
    /// `request` is met or nobody has any excess that can go.
    pub(super) fn soft_limit_reclaim<M: Memory>(
        &mut self,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Shrunk {
        let mut total = Shrunk::default();
        while request.reason != ScanReason::Proactive && total.reclaimed < request.nr {
            let Some(&(_, id)) = self.soft.by_excess.last() else {
                break;
            };
            let nr = request.nr.less(total.reclaimed).min(self.excess(id));
            let got = self.shrink_excess(id, ReclaimRequest { nr, ..request }, memory);
            total.add(got);
            if self.tree.exists(id) {
                let stuck = got.reclaimed == Pages(0);
                let excess = if stuck { Pages(0) } else { self.excess(id) };
                self.soft.set(id, excess.0);
            }
        }
        total
    }

    /// Takes `request.nr` pages of `top` and all below it; what min covers stays.
    fn shrink_excess<M: Memory>(
        &mut self,
        top: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Shrunk {
        let mut total = Shrunk::default();
        for priority in (0..=DEF_PRIORITY).rev() {
            let prepared = self.prepare(top, (request, priority), false);
            for id in self.tree.pre_order(top) {
                let rest = request.nr.less(total.reclaimed);
                if rest == Pages(0) {
                    return total;
                }
                self.tree.calculate_path(MemcgId::ROOT, id);
                if self.tree.below_min(MemcgId::ROOT, id) {
                    continue;
                }
                let rest = ReclaimRequest {
                    nr: rest,
                    ..request
                };
                let sc = ScanControl {
                    prepared,
                    ..self.scan_control(id, rest, priority)
                };
                total.visited += 1;
                total.add(self.shrink((top, id), &sc, memory));
                self.release_if_empty(id);
            }
            if !self.tree.exists(top) {
                break;
            }
        }
        total
    }
}

#[cfg(test)]
mod tests;
