//! Reclaim of the root by the memcg LRU.
//! spec: memcg-lru.md 4-6.

use super::{Machine, Ongoing, ReclaimRequest};
use crate::lru_gen::{DEF_PRIORITY, MIN_LRU_BATCH};
use crate::memcg::{MemcgEvent, MemcgId, MemcgOp, MemcgProfile, Segment};
use crate::units::{Pages, Swappiness};
use crate::vmscan::{Memory, ScanControl, Share, Shrunk, TryAgain};

impl Machine {
    /// Reclaims own pages of one memcg. `before`: what this visit reclaimed before its last pause,
    /// `None` at its beginning; `share`: how much of the request the visit may take. Returns where
    /// the memcg's entry in the memcg LRU must move, and what was reclaimed.
    /// spec: memcg-lru.md 4.
    pub(super) fn shrink_more<M: Memory>(
        &mut self,
        (id, before): (MemcgId, Option<Shrunk>),
        (request, priority, share): (ReclaimRequest, u32, Share),
        memory: &mut M,
    ) -> (MemcgOp, Shrunk) {
        let seed = self.memcg_lru.profile() == MemcgProfile::Seed;
        let swappiness = self.swappiness(id, request.swappiness);
        let tail_once = self.tail_then_young(id);
        if seed && !self.is_sizable(id, swappiness, priority) {
            return (tail_once, Shrunk::default());
        }
        self.tree.calculate_path(MemcgId::ROOT, id);
        if self.tree.below_min(MemcgId::ROOT, id) {
            return (MemcgOp::Young, Shrunk::default());
        }
        if self.tree.below_low(MemcgId::ROOT, id) {
            if !self.takes_below_low {
                let shrunk = Shrunk {
                    low_skipped: true,
                    ..Shrunk::default()
                };
                return (MemcgOp::Young, shrunk);
            }
            if self.memcg_lru.segment(id) != Segment::Tail {
                return (MemcgOp::Tail, Shrunk::default());
            }
            if before.is_none() {
                self.tree.event(id, MemcgEvent::Low);
            }
        }
        // Once memcgs below low are taken from, with `low_last` only min protects them, as in
        // reclaim by the hierarchy. The kernel's memcg LRU has no such phase.
        let low_reclaim = self.config.low_last && self.takes_below_low;
        let sc = ScanControl {
            root: true,
            share,
            prepared: self.prepare(MemcgId::ROOT, (request, priority), false),
            protection: self.protection((MemcgId::ROOT, id), low_reclaim),
            before,
            ..self.scan_control(id, request, priority)
        };
        let mut shrunk = self.shrink((MemcgId::ROOT, id), &sc, memory);
        shrunk.low_skipped = sc.protection.is_some_and(|protection| protection.by_low);
        let op = match (seed, shrunk.aged) {
            (true, true) => MemcgOp::Young,
            (true, false) => MemcgOp::Nop,
            (false, true) if sc.online => MemcgOp::Young,
            (false, false) if self.is_sizable(id, swappiness, priority) => MemcgOp::Nop,
            (false, _) => tail_once,
        };
        (op, shrunk)
    }

    fn tail_then_young(&self, id: MemcgId) -> MemcgOp {
        match self.memcg_lru.segment(id) {
            Segment::Tail => MemcgOp::Young,
            _ => MemcgOp::Tail,
        }
    }

    /// Whether a scan at this priority would cover at least one page. For an offline memcg: whether
    /// it has any evictable page, except under [`MemcgProfile::Seed`].
    pub(super) fn is_sizable(&self, id: MemcgId, swappiness: Swappiness, priority: u32) -> bool {
        let shifts = self.tree.is_online(id) || self.memcg_lru.profile() == MemcgProfile::Seed;
        let total = self.lruvec(id).evictable_on(self.node, swappiness);
        total.0 >> (if shifts { priority } else { 0 }) > 0
    }

    /// Returns the priority to start at: the one at which a pass over all memcgs would reclaim
    /// about `nr` pages.
    /// spec: memcg-lru.md 6.
    pub(super) fn initial_priority(&mut self, nr: Pages) -> u32 {
        // The counts below are those of all memory nodes.
        if nr.0 < MIN_LRU_BATCH as u64 || self.node.is_some() {
            return DEF_PRIORITY;
        }
        let (reclaimable, lowest) = match self.memcg_lru.profile() {
            // 2 is the number of memcg generations in that patch series.
            MemcgProfile::Seed => (self.inactive().0 / 2, 0),
            MemcgProfile::Newer => (self.inactive().0, DEF_PRIORITY / 2),
        };
        let fls = |n: u64| u64::BITS - n.leading_zeros();
        let priority = fls(reclaimable).saturating_sub(1 + fls(nr.0 - 1));
        priority.clamp(lowest, DEF_PRIORITY)
    }

    /// Reclaims from the root by the memcg LRU, with rising pressure until the request is met.
    pub fn reclaim_root<M: Memory>(&mut self, request: ReclaimRequest, memory: &mut M) -> Shrunk {
        let pass = self.lru_pass(request, memory);
        self.run_pass(pass, memory)
    }

    /// Does what a write to memory.reclaim of `target` does. Returns the number of pages reclaimed.
    ///
    /// # Errors
    /// [`TryAgain`] when less was reclaimed than requested: 16 passes reclaimed nothing, or one
    /// pass found that no swap is free.
    pub fn proactive_reclaim<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Result<Pages, TryAgain> {
        let mut ongoing = Ongoing::proactive(target, request);
        while !self.resume(&mut ongoing, request.now, memory) {}
        let reclaimed = ongoing.reclaimed();
        match reclaimed < request.nr {
            true => Err(TryAgain { reclaimed }),
            false => Ok(reclaimed),
        }
    }
}

#[cfg(test)]
mod tests;
