//! Reclaim by walking the hierarchy: for a subtree, and as the baseline that the memcg LRU
//! replaced. spec: reclaim-control.md 2.2, 5.3.
//!
//! Direct reclaim continues where the last one stopped and ends once its aim is reached
//! (`reclaimers.rs`). A full walk (background, memory.reclaim, and direct reclaim that got nothing)
//! shrinks every memcg at each priority before it looks at the aim: that is what makes it overshoot
//! with many tenants. With batches larger than the kernel's, memory.reclaim goes as direct reclaim, and
//! a full walk ends at the aim.

use super::{Machine, ReclaimRequest};
use crate::active_inactive::Prepared;
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::{MemcgEvent, MemcgId, MemcgOp};
use crate::units::Pages;
use crate::vmscan::{Memory, ScanControl, ScanReason, Shrunk};

/// What is done only after gentler ways got nothing, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Force {
    /// Walk all, from the beginning.
    full: bool,
    /// Deactivate pages though the active list is not too long (classic policy).
    deactivate: bool,
    /// Take from those below low.
    low: bool,
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
        let mut first = Shrunk::default();
        if target == MemcgId::ROOT {
            first = self.soft_limit_reclaim(request, memory);
        }
        if first.reclaimed > Pages(0) && first.reclaimed >= request.nr {
            return first;
        }
        let nr = request.nr.less(first.reclaimed);
        first.add(self.reclaim_hierarchy(target, ReclaimRequest { nr, ..request }, memory));
        first
    }

    fn reclaim_hierarchy<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memory: &mut M,
    ) -> Shrunk {
        let mut force = Force {
            full: request.reason != ScanReason::Direct && !self.is_exact(request.reason),
            ..Force::default()
        };
        loop {
            let total = self.each_priority(target, request, force, memory);
            if total.reclaimed > Pages(0) {
                return total;
            }
            if !force.full {
                force.full = true;
            } else if total.kept_active && !force.deactivate {
                force.deactivate = true;
            } else if total.low_skipped && !force.low {
                force.low = true;
            } else {
                return total;
            }
        }
    }

    fn each_priority<M: Memory>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        force: Force,
        memory: &mut M,
    ) -> Shrunk {
        let mut total = Shrunk::default();
        for priority in (0..=DEF_PRIORITY).rev() {
            self.note_pressure(target, (priority, request.reason), request.now);
            if !self.is_worth_a_pass(request, priority) {
                continue;
            }
            if force.full {
                total.add(self.walk_all((target, priority), (request, force), memory));
            } else {
                let reclaimer = self.hierarchy_reclaimer(target, request, priority);
                let reclaimer = reclaimer.after(total.reclaimed);
                total.add(self.run_reclaimer(reclaimer, memory));
            }
            if total.reclaimed >= request.nr || !self.tree.exists(target) {
                break;
            }
        }
        self.snapshot(target);
        total
    }

    /// Shrinks `target` and all below it, at one priority.
    fn walk_all<M: Memory>(
        &mut self,
        (target, priority): (MemcgId, u32),
        (request, force): (ReclaimRequest, Force),
        memory: &mut M,
    ) -> Shrunk {
        let (mut total, is_exact) = (Shrunk::default(), self.is_exact(request.reason));
        let prepared = self.prepare(target, (request, priority), force.deactivate);
        for id in self.tree.pre_order(target) {
            let mut request = request;
            if is_exact {
                request.nr = request.nr.less(total.reclaimed);
                if request.nr == Pages(0) {
                    break;
                }
            }
            total.visited += 1;
            self.tree.calculate_protection(target, id);
            let pass = NodePass {
                target,
                request,
                force,
                priority,
                prepared,
            };
            total.add(self.shrink_child(id, pass, memory));
        }
        total
    }

    /// Shrinks `id` in a pass over its target, if its protection, computed before, allows it.
    pub(super) fn shrink_child<M: Memory>(
        &mut self,
        id: MemcgId,
        pass: NodePass,
        memory: &mut M,
    ) -> Shrunk {
        let NodePass { target, force, .. } = pass;
        if self.tree.below_min(target, id) {
            return Shrunk::default();
        }
        if self.tree.below_low(target, id) {
            if !force.low {
                return Shrunk {
                    low_skipped: true,
                    ..Shrunk::default()
                };
            }
            self.tree.event(id, MemcgEvent::Low);
        }
        let sc = ScanControl {
            force_deactivate: force.deactivate,
            prepared: pass.prepared,
            protection: self.protection((target, id), force.low),
            ..self.scan_control(id, pass.request, pass.priority)
        };
        let mut shrunk = self.shrink((target, id), &sc, memory);
        shrunk.low_skipped = sc.protection.is_some_and(|protection| protection.by_low);
        if shrunk.aged {
            self.memcg_lru.rotate(id, MemcgOp::Young);
        }
        self.release_if_empty(id);
        shrunk
    }
}
