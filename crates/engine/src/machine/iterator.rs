//! Reclaim by walking the hierarchy: what a walk does with each memcg. Reclaim of a subtree works
//! so; reclaim of the root did before Linux had the memcg LRU, and does here as a baseline.
//! spec: reclaim-control.md 2.2, 5.3.
//!
//! Invariant: pages that min covers stay; pages that low covers stay until all other steps of
//! [`ForceLevel`] reclaimed nothing.

use super::sharing::Sharing;
use super::{Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::memcg::{MemcgEvent, MemcgId, MemcgOp};
use crate::vmscan::{Memory, ScanControl, Share, Shrunk};

/// What a reclaim may do in addition because it has reclaimed nothing yet. The flags are set one
/// after the other, each after a reclaim without it has reclaimed nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ForceLevel {
    /// Walk all memcgs of the target from the beginning, not from where other reclaims stopped.
    pub(super) full: bool,
    /// Deactivate pages even if the inactive list is not low (classic policy).
    pub(super) deactivate: bool,
    /// Take pages from memcgs that are below memory.low.
    pub(super) low: bool,
}

impl ForceLevel {
    /// Begins without force, except that the walk visits all memcgs from the beginning if `full`.
    pub(super) fn new(full: bool) -> Self {
        Self {
            full,
            ..Self::default()
        }
    }

    /// Sets the next flag after a reclaim that got nothing; returns false if no flag would help.
    pub(super) const fn escalate(&mut self, shrunk: &Shrunk) -> bool {
        if !self.full {
            self.full = true;
        } else if shrunk.kept_active && !self.deactivate {
            self.deactivate = true;
        } else if shrunk.low_skipped && !self.low {
            self.low = true;
            // Active pages are deactivated again only if memcgs below low yield nothing, either.
            self.deactivate = false;
        } else {
            return false;
        }
        true
    }
}

/// What is common to all memcgs of one walk over a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePass {
    pub(super) target: MemcgId,
    pub(super) request: ReclaimRequest,
    pub(super) force: ForceLevel,
    pub(super) priority: u32,
    /// Decisions made when the walk began; `None` under the multi-gen LRU.
    pub(super) prepared: Option<Prepared>,
    /// How the request is divided among the memcgs.
    pub(super) sharing: Sharing,
}

impl Machine {
    /// Reclaims from `target` and all memcgs below it, with rising pressure. If `target` is the
    /// root, it first reclaims from memcgs above their soft limit.
    pub fn reclaim_subtree<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Shrunk {
        let pass = self.hierarchy_pass(target, request, memory);
        self.run_pass(pass, memory)
    }

    /// Reclaims from `id` in a walk over `pass.target`, if the protection of `id`, which the caller
    /// has computed, allows it. `before`: what this visit reclaimed before its last pause, and its
    /// share of the request; `None` at its beginning. Returns what was reclaimed now, and the
    /// share.
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
        // A resumed visit keeps the share that it had when it began.
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

    /// Regression: reclaim-control.md 5.3. As soon as memcgs below low were reclaimed from, active
    /// pages of all memcgs were deactivated.
    #[test]
    fn memcgs_below_low_are_reclaimed_without_force_first() {
        let shrunk = Shrunk {
            kept_active: true,
            low_skipped: true,
            ..Shrunk::default()
        };
        let (mut force, mut levels) = (ForceLevel::new(false), Vec::new());
        while force.escalate(&shrunk) {
            levels.push((force.deactivate, force.low));
        }
        let expect = [(false, false), (true, false), (false, true), (true, true)];
        assert_eq!(levels, expect);
    }
}
