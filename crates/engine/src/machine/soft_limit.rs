//! Soft limits: memcgs above their soft limit are reclaimed from first.
//! spec: reclaim-control.md 3; memcg-lru.md 3.
//!
//! A memcg is checked once in [`SOFT_LIMIT_EVENTS`] pages charged to it. With the multi-gen LRU, a
//! memcg above its soft limit is only moved to the head of its bin of the memcg LRU. With the
//! classic LRU, the memcg and its ancestors are sorted by their excess (pages above the soft
//! limit). Direct and background reclaim of the root then begin with the memcg of largest excess;
//! memory.reclaim does not.
//!
//! Invariant: `by_excess` has exactly one entry for each memcg that had an excess at its last
//! check, with that excess, until a reclaim of the memcg reclaims nothing; it has no other entries.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::MemcgId;
use crate::units::Pages;
use crate::vmscan::{Memory, ScanControl, ScanReason, Shrunk};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Pages charged to a memcg between two checks of its soft limit. The specification names no
/// number.
pub const SOFT_LIMIT_EVENTS: u32 = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    charged: u32,
    /// Pages above the soft limit at the last check.
    excess: u64,
}

/// The state of soft limits.
#[derive(Debug, Default)]
pub(super) struct SoftLimits {
    /// Whether any memcg has a soft limit.
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

    /// Counts a page charged to `id`; returns whether its soft limit must be checked now.
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

    /// Checks the soft limit of `id` after its usage was measured (multi-gen LRU only).
    pub(super) fn note_measured(&mut self, id: MemcgId) {
        let is_over = self.soft.in_use && self.excess(id) > Pages(0);
        if is_over && self.lruvec(id).classic().is_none() {
            self.memcg_lru.soft_limit_exceeded(id);
        }
    }

    /// Notes that a page was charged to `id`. Checks its soft limit at each [`SOFT_LIMIT_EVENTS`]th
    /// page.
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

    /// Reclaims from memcgs above their soft limit, down to that limit, the largest excess first,
    /// until `request` is met or no excess can be reclaimed.
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
            let shrunk = self.shrink_excess(id, ReclaimRequest { nr, ..request }, memory);
            total.add(shrunk);
            if self.tree.exists(id) {
                let stuck = shrunk.reclaimed == Pages(0);
                let excess = if stuck { Pages(0) } else { self.excess(id) };
                self.soft.set(id, excess.0);
            }
        }
        total
    }

    /// Reclaims `request.nr` pages from `top` and all memcgs below it; pages that min covers stay.
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
                let missing = request.nr.less(total.reclaimed);
                if missing == Pages(0) {
                    return total;
                }
                self.tree.calculate_path(MemcgId::ROOT, id);
                if self.tree.below_min(MemcgId::ROOT, id) {
                    continue;
                }
                let missing = ReclaimRequest {
                    nr: missing,
                    ..request
                };
                let sc = ScanControl {
                    prepared,
                    ..self.scan_control(id, missing, priority)
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
