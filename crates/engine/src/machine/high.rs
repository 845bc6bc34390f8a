//! memory.high and memory.swap.high: a task over them reclaims, then sleeps. Also enforces limits
//! that were set below the usage.
//! spec: reclaim-control.md 3.
//!
//! Invariant: no process is killed because of memory.high; a task sleeps at most 2 s (I7).

use super::{Machine, OomAt, ReclaimRequest};
use crate::memcg::{MAX_RECLAIM_RETRIES, MemcgEvent, MemcgId};
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, SWAP_CLUSTER_MAX, ScanReason};

impl Machine {
    /// Reclaims for a task of `id` that has charged `nr` pages, and returns how long the task must
    /// then sleep. Reclaims from each memcg over its memory.high, from `id` up, until the task need
    /// not sleep or 16 rounds reclaimed nothing. Counts the event HIGH at each memcg over its
    /// memory.high, and SWAP_HIGH at each over its memory.swap.high.
    pub fn over_high<M: Memory>(
        &mut self,
        id: MemcgId,
        nr: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Millis {
        let mut retries = MAX_RECLAIM_RETRIES;
        self.note_high(id);
        loop {
            let reclaimed = self.reclaim_high(id, now, memory);
            let delay = self.tree.high_overages(id).delay(nr);
            if delay == Millis(0) {
                return delay;
            }
            if reclaimed == Pages(0) {
                retries -= 1;
                if retries == 0 {
                    return delay;
                }
            }
        }
    }

    fn note_high(&mut self, id: MemcgId) {
        let mut at = Some(id);
        while let Some(id) = at {
            if self.tree.get(id).over_high() > Pages(0) {
                self.tree.event(id, MemcgEvent::High);
            }
            if self.tree.get(id).over_swap_high() > Pages(0) {
                self.tree.event(id, MemcgEvent::SwapHigh);
            }
            at = self.tree.parent(id);
        }
    }

    /// Reclaims one batch from `id` and from each memcg above it that is over its memory.high;
    /// returns the pages reclaimed.
    fn reclaim_high<M: Memory>(&mut self, id: MemcgId, now: Millis, memory: &mut M) -> Pages {
        let (mut at, mut reclaimed) = (Some(id), Pages(0));
        while let Some(id) = at {
            at = self.tree.parent(id);
            if self.tree.get(id).over_high() > Pages(0) {
                let request = direct(Pages(SWAP_CLUSTER_MAX), now);
                reclaimed.0 += self.reclaim_subtree(id, request, memory).reclaimed.0;
            }
        }
        reclaimed
    }

    /// Enforces limits of `id` that were just set, maybe below its usage. Reclaims down to
    /// memory.high and then down to memory.max; gives up each after 16 reclaims that reclaimed
    /// nothing.
    ///
    /// # Errors
    /// [`OomAt`] when the usage is still above memory.max: the caller must kill a process there,
    /// and then call this again. The event OOM is counted.
    pub fn enforce_limits<M: Memory>(
        &mut self,
        id: MemcgId,
        now: Millis,
        memory: &mut M,
    ) -> Result<(), OomAt> {
        let high = self.tree.get(id).limits().high.pages();
        self.shrink_to(id, high, now, memory);
        let max = self.tree.get(id).limits().max.pages();
        if self.shrink_to(id, max, now, memory) {
            return Ok(());
        }
        self.tree.event(id, MemcgEvent::Oom);
        Err(OomAt { at: id })
    }

    /// Reclaims until the usage of `id` is at most `limit`; returns false when 16 reclaims got
    /// nothing.
    fn shrink_to<M: Memory>(
        &mut self,
        id: MemcgId,
        limit: Pages,
        now: Millis,
        memory: &mut M,
    ) -> bool {
        let mut retries = MAX_RECLAIM_RETRIES;
        let mut drained = false;
        loop {
            let over = self.tree.get(id).usage().less(limit);
            if over == Pages(0) || retries == 0 {
                return over == Pages(0);
            }
            if !drained {
                self.tree.drain_stocks();
                drained = true;
                continue;
            }
            let shrunk = self.reclaim_subtree(id, direct(over, now), memory);
            retries -= u32::from(shrunk.reclaimed == Pages(0));
        }
    }
}

const fn direct(nr: Pages, now: Millis) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Direct, nr, now)
}

#[cfg(test)]
mod tests;
