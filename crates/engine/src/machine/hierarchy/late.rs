//! What statistics show of a level: its present values, or those at the last flush of the
//! statistics.
//! spec: rstat.md 6.3.
//!
//! Reclaim reads list sizes, activations, and the size by which costs decay from the statistics. It
//! reads the eviction clock, the costs, and the sizes for a list's scan target without delay.
//!
//! Invariant: the late values of a level are all from the same flush: the last one of that level or
//! of an ancestor.

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
    /// Returns the level of `id` that reclaim sees. The caller has added all changes to the levels
    /// before.
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

    /// Returns the list sizes that the lruvec of `id` must use in a reclaim of `target`; `None` if
    /// it must use the exact sizes.
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
