//! Reclaim by walking the hierarchy: for a subtree, and as the baseline that the memcg LRU
//! replaced: what is done to each memcg of a walk. spec: reclaim-control.md 2.2, 5.3.
//!
//! Invariant: what min covers stays, and what low covers stays until all gentler ways got nothing.

use super::sharing::Sharing;
use super::{Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::memcg::{MemcgEvent, MemcgId, MemcgOp};
use crate::vmscan::{Memory, ScanControl, Share, Shrunk};

/// What is done only after gentler ways got nothing, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Force {
    /// Walk all, from the beginning.
    pub(super) full: bool,
    /// Deactivate pages though the active list is not too long (classic policy).
    pub(super) deactivate: bool,
    /// Take from those below low.
    pub(super) low: bool,
}

impl Force {
    /// None yet, but that all may be walked from the beginning.
    pub(super) fn new(full: bool) -> Self {
        Self {
            full,
            ..Self::default()
        }
    }

    /// The next harder way after one that got nothing; false if there is none.
    pub(super) const fn rise(&mut self, got: &Shrunk) -> bool {
        if !self.full {
            self.full = true;
        } else if got.kept_active && !self.deactivate {
            self.deactivate = true;
        } else if got.low_skipped && !self.low {
            self.low = true;
            // Gently again: what is active is deactivated by force once more only if those below low give nothing, either.
            self.deactivate = false;
        } else {
            return false;
        }
        true
    }
}

/// One walk over the memcgs of a target: the same for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePass {
    pub(super) target: MemcgId,
    pub(super) request: ReclaimRequest,
    pub(super) force: Force,
    pub(super) priority: u32,
    /// What was decided when it began (classic policy).
    pub(super) prepared: Option<Prepared>,
    /// How it is shared out.
    pub(super) sharing: Sharing,
}

impl Machine {
    /// Reclaims from `target` and all below it, with rising priority; of the root first from those
    /// above their soft limit.
    pub fn reclaim_subtree<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Shrunk {
        let pass = self.hierarchy_pass(target, request, memory);
        self.run_pass(pass, memory)
    }

    /// Shrinks `id` in a pass over its target, if its protection, computed before, allows it. `before`: what this came to
    /// before it bailed out, and its share of what is wanted; which it tells, too.
    pub(super) fn shrink_child<M: Memory>(
        &mut self,
        (id, before): (MemcgId, Option<(Shrunk, Share)>),
        pass: NodePass,
        memory: &mut M,
    ) -> (Shrunk, Share) {
        let NodePass { target, force, .. } = pass;
        if self.tree.below_min(target, id) {
            return (Shrunk::default(), Share::Whole);
        }
        if self.tree.below_low(target, id) {
            if !force.low {
                let shrunk = Shrunk {
                    low_skipped: true,
                    ..Shrunk::default()
                };
                return (shrunk, Share::Whole);
            }
            if before.is_none() {
                self.tree.event(id, MemcgEvent::Low);
            }
        }
        let sc = ScanControl {
            force_deactivate: force.deactivate,
            prepared: pass.prepared,
            protection: self.protection((target, id), force.low),
            before: before.map(|(part, _)| part),
            ..self.scan_control(id, pass.request, pass.priority)
        };
        // What is left of it is less: its share is what it was when it was met.
        let share = match before {
            Some((_, share)) => Some(share),
            None => self.share(id, pass.sharing, &sc),
        };
        let Some(share) = share else {
            return (Shrunk::default(), Share::Whole);
        };
        let sc = ScanControl { share, ..sc };
        let mut shrunk = self.shrink((target, id), &sc, memory);
        shrunk.low_skipped = sc.protection.is_some_and(|protection| protection.by_low);
        if shrunk.aged {
            self.memcg_lru.rotate(id, MemcgOp::Young);
        }
        self.release_if_empty(id);
        (shrunk, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// reclaim-control.md 5.3. Active pages of everybody were deactivated as soon as those below low gave.
    #[test]
    fn those_below_low_are_asked_without_force_first() {
        let got = Shrunk {
            kept_active: true,
            low_skipped: true,
            ..Shrunk::default()
        };
        let (mut force, mut ways) = (Force::new(false), Vec::new());
        while force.rise(&got) {
            ways.push((force.deactivate, force.low));
        }
        let expect = [(false, false), (true, false), (false, true), (true, true)];
        assert_eq!(ways, expect);
    }
}
