//! Levels: for each memcg, the sums over the classic lruvecs of its subtree of list sizes, eviction
//! clock, activations and costs. Also what a lruvec must know of the level of the memcg that
//! reclaim targets.
//! spec: workingset.md 2, 4, 5; classic-lru.md 4.3, 5.1, 5.2.
//!
//! A lruvec counts alone; its changes are added to the levels before a level is read. So a touch of
//! a page costs nothing in the memcgs above. Levels are exact; statistics may show older values
//! (`late.rs`). Under the multi-gen LRU there are no levels.
//!
//! Invariant: the sizes of a memcg's level are the sum of what its own lruvec last reported and its
//! children's levels. Its clock is at least the sum of theirs: removed children have advanced the
//! clock, too, and so have evictions from memcgs below by reclaim that targets the memcg.

mod late;

use super::{Machine, ReclaimRequest};
use crate::active_inactive::{CostNote, FreePages, Level, Prepared, Stage, Target};
use crate::folio::FolioId;
use crate::lruvec::{Lruvec, Policy};
use crate::memcg::{MemcgId, MemcgTree};
use crate::units::Pages;
use crate::vmscan::{ScanReason, WATERMARK_SCALE_FACTOR, Watermarks, min_free_kbytes};
use alloc::vec::Vec;

#[derive(Debug, Default)]
struct Node {
    level: Level,
    /// What the memcg's own lruvec last reported, a part of `level`.
    reported: Level,
    /// Activations `[anon, file]` at the end of the last reclaim that targeted this memcg.
    seen: [u64; 2],
    /// The level at the last flush of the statistics; used only if these may lag behind.
    flushed: Level,
}

/// The levels of all memcgs.
#[derive(Debug, Default)]
pub(super) struct Hierarchy {
    nodes: Vec<Node>,
    /// Whether the statistics that reclaim reads may lag behind.
    is_late: bool,
}

impl Hierarchy {
    fn node(&mut self, id: MemcgId) -> &mut Node {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, Node::default);
        }
        &mut self.nodes[id.index()]
    }

    /// Updates the levels of `id` and of all memcgs above it.
    ///
    /// `own` is the present level of the lruvec of `id` alone, and `notes` are the costs that it
    /// noted since the last update. `evicted` is the number of pages evicted from it since then, by
    /// reclaim of the memcg `steps` levels above `id`.
    pub(super) fn add(
        &mut self,
        tree: &MemcgTree,
        id: MemcgId,
        (own, notes, (steps, evicted)): (Level, &[CostNote], (u8, u64)),
    ) {
        let reported = core::mem::replace(&mut self.node(id).reported, own);
        let is_late = self.is_late;
        for (above, at) in tree.ancestors(id).enumerate() {
            let Node { level, flushed, .. } = self.node(at);
            if above >= usize::from(steps) {
                level.nonresident_age += evicted;
            }
            let others = level.sizes.less(reported.sizes);
            for note in notes {
                let size = if is_late {
                    flushed.sizes.total()
                } else {
                    others.total() + note.size
                };
                level.costs.note(note.ty, note.nr_io, note.nr_rotated, size);
            }
            level.sizes = others.plus(own.sizes);
            level.nonresident_age += own.nonresident_age - reported.nonresident_age;
            for (sum, (now, before)) in level
                .activations
                .iter_mut()
                .zip(own.activations.into_iter().zip(reported.activations))
            {
                *sum += now - before;
            }
        }
    }

    pub(super) fn forget(&mut self, id: MemcgId) {
        *self.node(id) = Node::default();
    }
}

impl Machine {
    /// Returns the stage of the classic LRU and the machine's pages; `None` under the multi-gen
    /// LRU.
    const fn classic(&self) -> Option<(Stage, Pages)> {
        match self.config.policy {
            Policy::ActiveInactive(stage, total) => Some((stage, total)),
            Policy::MultiGen(_) => None,
        }
    }

    /// Adds the changes of all lruvecs to the levels.
    pub(super) fn flush(&mut self) {
        if self.classic().is_some() {
            self.hand_all_over();
        }
    }

    /// Makes the decisions that hold for a whole walk over `target` at one priority; `None` under
    /// the multi-gen LRU.
    pub(super) fn prepare(
        &mut self,
        target: MemcgId,
        (request, priority): (ReclaimRequest, u32),
        force_deactivate: bool,
    ) -> Option<Prepared> {
        let (stage, total) = self.classic()?;
        self.flush();
        self.flush_if_late(target, request.now);
        let (shown, seen) = (self.shown(target), self.hierarchy.node(target).seen);
        let prepared = Prepared::new((stage, &shown), seen, priority, force_deactivate);
        if target != MemcgId::ROOT || request.reason == ScanReason::Proactive {
            return Some(prepared);
        }
        // The kernel counts these pages for the node, and without delay.
        let level = self.hierarchy.node(target).level;
        let min = Pages(min_free_kbytes(total.bytes().0 / 1024) * 1024 / Pages(1).bytes().0);
        let pages = FreePages {
            free: total.less(self.tree.get(MemcgId::ROOT).usage()),
            high: Watermarks::new(total, min, WATERMARK_SCALE_FACTOR).high,
        };
        Some(prepared.of_machine(&level, priority, pages))
    }

    /// Ends a reclaim of `target`: the next reclaim counts only later activations as new.
    pub(super) fn snapshot(&mut self, target: MemcgId) {
        if self.classic().is_some() && self.tree.exists(target) {
            self.flush();
            let shown = self.shown(target);
            self.hierarchy.node(target).seen = shown.activations;
        }
    }

    /// Sets the memcg for which pages of `id` are reclaimed from now on: `target` is `id` or a
    /// memcg above it. If `target` is more than 255 levels above, `id` is used instead.
    pub(super) fn set_target(&mut self, id: MemcgId, target: MemcgId) {
        if self.classic().is_none() {
            return;
        }
        self.flush();
        let found = self
            .tree
            .ancestors(id)
            .zip(0..=u8::MAX)
            .find(|&(at, _)| at == target);
        let (target, steps) = found.unwrap_or((id, 0));
        let reported = self.hierarchy.node(id).reported;
        let below = self.hierarchy.node(id).level.sizes.less(reported.sizes);
        let level = self.hierarchy.node(target).level;
        let target = Target {
            steps,
            ahead: level.nonresident_age - reported.nonresident_age,
            others: level.sizes.less(reported.sizes),
            is_gone: !self.tree.is_online(target),
            below,
            shown: self.shown_sizes(target, id),
        };
        let lruvec = self.lruvecs[id.index()].as_mut();
        if let Some(lru) = lruvec.and_then(Lruvec::classic_mut) {
            lru.set_target(target);
        }
    }

    /// Before a refault of page `id`, makes the memcg whose reclaim evicted the page the target of
    /// `memcg`. Returns whether that target may use swap.
    pub(super) fn set_target_of_refault(&mut self, memcg: MemcgId, id: FolioId) -> bool {
        let Some(lru) = self.lruvec(memcg).classic() else {
            return false;
        };
        let steps = usize::from(lru.target_steps(id));
        let target = self.tree.ancestors(memcg).nth(steps).unwrap_or(memcg);
        self.set_target(memcg, target);
        self.tree.swap_available(target) > Pages(0)
    }

    /// Returns the level of `id` after all changes were added.
    #[cfg(test)]
    pub(super) fn level(&mut self, id: MemcgId) -> Level {
        self.flush();
        self.hierarchy.node(id).level
    }

    /// Asserts the invariant for the level of `id`.
    pub(super) fn check_level(&self, id: MemcgId) {
        if self.classic().is_none() {
            return;
        }
        let node_of = |id: MemcgId| self.hierarchy.nodes.get(id.index());
        let level = |id| node_of(id).map_or_else(Level::default, |node| node.level);
        let reported = node_of(id).map_or_else(Level::default, |node| node.reported);
        let children = self.tree.children(id).map(level);
        let (mut sizes, mut age) = (reported.sizes, reported.nonresident_age);
        for child in children {
            sizes = sizes.plus(child.sizes);
            age += child.nonresident_age;
        }
        assert_eq!(level(id).sizes, sizes, "the level of {id:?}");
        assert!(level(id).nonresident_age >= age, "the clock of {id:?}");
        let own = self.lruvec(id).classic().map(|lru| lru.own());
        let flushed = node_of(id).map_or_else(Level::default, |node| node.flushed);
        let mut pairs = flushed.activations.into_iter().zip(level(id).activations);
        let is_less = pairs.all(|(was, is)| was <= is);
        assert!(is_less, "activations of {id:?} that were shown are gone");
        let is_seen = own.is_some_and(|own| own.sizes == reported.sizes);
        assert!(is_seen || self.has_changed(id), "{id:?} has changed unseen");
    }
}

#[cfg(test)]
mod tests;
