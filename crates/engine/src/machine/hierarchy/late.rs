//! What the statistics show of a level: the level itself, or what it was at their last flush.
//! spec: rstat.md 6.3.
//!
//! List sizes and activations come from the statistics. The eviction clock and the costs do not
//! (but the size by which costs decay does), nor do the sizes from which a list's scan target is
//! computed.
//!
//! Invariant: the late values of a level are all of one moment: the last flush of that level or of
//! an ancestor.

use super::Hierarchy;
use crate::active_inactive::{Level, Shown};
use crate::lruvec::Policy;
use crate::machine::{LevelReads, Machine, MachineConfig};
use crate::memcg::MemcgId;
use crate::units::Millis;

impl Hierarchy {
    pub(in crate::machine) fn new(config: &MachineConfig) -> Self {
        let is_classic = matches!(config.policy, Policy::ActiveInactive(..));
        Self {
            is_late: is_classic && config.level_reads == LevelReads::RateLimited,
            ..Self::default()
        }
    }
}

impl Machine {
    /// Returns the level of `id` as reclaim sees it; the caller has added all changes to the
    /// levels.
    pub(super) fn shown(&mut self, id: MemcgId) -> Level {
        let is_late = self.hierarchy.is_late;
        let node = self.hierarchy.node(id);
        if !is_late {
            return node.level;
        }
        Level {
            sizes: node.flushed.sizes,
            activations: node.flushed.activations,
            ..node.level
        }
    }

    /// Returns the list sizes that a lruvec of `id` must use for the memcg `target`; `None` to use
    /// the exact ones.
    pub(super) fn shown_sizes(&mut self, target: MemcgId, id: MemcgId) -> Option<Shown> {
        self.hierarchy.is_late.then(|| Shown {
            target: self.shown(target).sizes,
            subtree: self.shown(id).sizes,
        })
    }

    /// Makes the present levels of `top` and all memcgs below visible to reclaim: their statistics
    /// were flushed.
    pub(in crate::machine) fn show(&mut self, top: MemcgId) {
        if self.hierarchy.is_late {
            for id in self.tree.pre_order(top) {
                let node = self.hierarchy.node(id);
                node.flushed = node.level;
            }
        }
    }

    /// Flushes the statistics that reclaim of `target` is about to read, if the periodic flush is
    /// late and enough has changed.
    pub(super) fn flush_if_late(&mut self, target: MemcgId, now: Millis) {
        if self.hierarchy.is_late && self.flush_limited(target, now) {
            self.show(target);
        }
    }
}
