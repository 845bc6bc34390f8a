//! Reclaim by walking the hierarchy: for a subtree, and as the baseline that the memcg LRU
//! replaced. spec: reclaim-control.md 2.2, 5.3.
//!
//! A full walk shrinks every memcg at each priority before it looks at the aim: that is what makes
//! it overshoot with many tenants.

use super::{Machine, Memories, ReclaimRequest};
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::{MemcgEvent, MemcgId, MemcgOp};
use crate::units::Pages;
use crate::vmscan::{ScanControl, Shrunk};

impl Machine {
    /// Reclaims from `target` and all below it, with rising priority.
    pub fn reclaim_subtree<M: Memories>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memories: &mut M,
    ) -> Shrunk {
        let mut first = Shrunk::default();
        if target == MemcgId::ROOT {
            first = self.soft_limit_reclaim(request, memories);
        }
        if first.reclaimed > Pages(0) && first.reclaimed >= request.nr {
            return first;
        }
        let nr = request.nr.less(first.reclaimed);
        first.add(self.reclaim_hierarchy(target, ReclaimRequest { nr, ..request }, memories));
        first
    }

    fn reclaim_hierarchy<M: Memories>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        memories: &mut M,
    ) -> Shrunk {
        let mut low_skipped = false;
        let total = self.each_priority(target, request, &mut low_skipped, false, memories);
        if total.reclaimed > Pages(0) || !low_skipped {
            return total;
        }
        // Nothing else is left: those below low must give, too.
        self.each_priority(target, request, &mut low_skipped, true, memories)
    }

    fn each_priority<M: Memories>(
        &mut self,
        target: MemcgId,
        request: ReclaimRequest,
        low_skipped: &mut bool,
        low_reclaim: bool,
        memories: &mut M,
    ) -> Shrunk {
        let mut total = Shrunk::default();
        for priority in (0..=DEF_PRIORITY).rev() {
            self.note_pressure(target, (priority, request.reason), request.now);
            for id in self.tree.pre_order(target) {
                total.visited += 1;
                self.tree.calculate_protection(target, id);
                if self.tree.below_min(target, id) {
                    continue;
                }
                if self.tree.below_low(target, id) {
                    if !low_reclaim {
                        *low_skipped = true;
                        continue;
                    }
                    self.tree.event(id, MemcgEvent::Low);
                }
                total.add(self.shrink_walked(id, request, priority, memories));
            }
            if total.reclaimed >= request.nr {
                break;
            }
        }
        total
    }

    fn shrink_walked<M: Memories>(
        &mut self,
        id: MemcgId,
        request: ReclaimRequest,
        priority: u32,
        memories: &mut M,
    ) -> Shrunk {
        let swappiness = self.swappiness(id, request.swappiness);
        let sc = ScanControl {
            priority,
            online: self.tree.is_online(id),
            ..ScanControl::new(request.reason, request.nr, swappiness, request.now)
        };
        let shrunk = self.shrink(id, &sc, memories);
        if shrunk.aged {
            self.memcg_lru.rotate(id, MemcgOp::Young);
        }
        self.release_if_empty(id);
        shrunk
    }
}
