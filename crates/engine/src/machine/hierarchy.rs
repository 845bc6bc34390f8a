//! Levels: for each memcg what its classic lruvec and those of all below it hold and have done, and how a lruvec
//! learns what it needs of them. spec: workingset.md 2, 4, 5; classic-lru.md 4.3, 5.1, 5.2.
//!
//! A lruvec goes on alone and is added up before anybody looks at a level: so ancestors cost nothing where
//! pages are touched. These are exact; what statistics show of them may be older (`late.rs`). Under the multi-gen LRU
//! there are no levels.
//!
//! Invariant: a level is what its lruvec was last seen to hold and its children's levels; its clock has advanced by
//! as much at least, for children that are no more had their part in it.

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
    /// Its own lruvec, as last seen.
    told: Level,
    /// Activations that the last reclaim of it had seen.
    seen: [u64; 2],
    /// The level at the last flush of statistics, if these come late.
    flushed: Level,
}

/// The levels of all memcgs.
#[derive(Debug, Default)]
pub(super) struct Hierarchy {
    nodes: Vec<Node>,
    /// Statistics come late.
    is_late: bool,
}

impl Hierarchy {
    fn node(&mut self, id: MemcgId) -> &mut Node {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, Node::default);
        }
        &mut self.nodes[id.index()]
    }

    /// The lruvec of `id` holds `own` now, and has noted these costs since it was last seen.
    pub(super) fn add(
        &mut self,
        tree: &MemcgTree,
        id: MemcgId,
        (own, notes): (Level, &[CostNote]),
    ) {
        let told = core::mem::replace(&mut self.node(id).told, own);
        let is_late = self.is_late;
        for at in tree.ancestors(id) {
            let Node { level, flushed, .. } = self.node(at);
            let others = level.sizes.less(told.sizes);
            for note in notes {
                let size = if is_late {
                    flushed.sizes.total()
                } else {
                    others.total() + note.size
                };
                level.costs.note(note.ty, note.nr_io, note.nr_rotated, size);
            }
            level.sizes = others.plus(own.sizes);
            level.nonresident_age += own.nonresident_age - told.nonresident_age;
            for (sum, (now, before)) in level
                .activations
                .iter_mut()
                .zip(own.activations.into_iter().zip(told.activations))
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
    /// The stage and the pages of the machine, if its lists are classic.
    const fn classic(&self) -> Option<(Stage, Pages)> {
        match self.config.policy {
            Policy::ActiveInactive(stage, total) => Some((stage, total)),
            Policy::MultiGen(_) => None,
        }
    }

    /// Brings all levels up to date.
    pub(super) fn flush(&mut self) {
        if self.classic().is_some() {
            self.hand_all_over();
        }
    }

    /// What a walk over `target` at one priority goes by; `None` under the multi-gen LRU.
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
        // These are counted for the node, at once.
        let level = self.hierarchy.node(target).level;
        let min = Pages(min_free_kbytes(total.bytes().0 / 1024) * 1024 / Pages(1).bytes().0);
        let pages = FreePages {
            free: total.less(self.tree.get(MemcgId::ROOT).usage()),
            high: Watermarks::new(total, min, WATERMARK_SCALE_FACTOR).high,
        };
        Some(prepared.of_machine(&level, priority, pages))
    }

    /// A reclaim of `target` is over: activations from now on are news to the next one.
    pub(super) fn snapshot(&mut self, target: MemcgId) {
        if self.classic().is_some() && self.tree.exists(target) {
            self.flush();
            let shown = self.shown(target);
            self.hierarchy.node(target).seen = shown.activations;
        }
    }

    /// What pages of `id` do from now on they do on behalf of `target`: itself, or a memcg above it. More than 255
    /// levels up it is not named, and its own memcg stands for it.
    pub(super) fn face(&mut self, id: MemcgId, target: MemcgId) {
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
        let told = self.hierarchy.node(id).told;
        let below = self.hierarchy.node(id).level.sizes.less(told.sizes);
        let level = self.hierarchy.node(target).level;
        let target = Target {
            steps,
            ahead: level.nonresident_age - told.nonresident_age,
            others: level.sizes.less(told.sizes),
            is_gone: !self.tree.is_online(target),
            below,
            shown: self.shown_sizes(target, id),
        };
        let lruvec = self.lruvecs[id.index()].as_mut();
        if let Some(lru) = lruvec.and_then(Lruvec::classic_mut) {
            lru.set_target(target);
        }
    }

    /// A page of `memcg` that is out comes back: it is judged by the memcg on whose behalf it left. True when that
    /// may use swap.
    pub(super) fn face_evictor(&mut self, memcg: MemcgId, id: FolioId) -> bool {
        let Some(lru) = self.lruvec(memcg).classic() else {
            return false;
        };
        let steps = usize::from(lru.named(id));
        let target = self.tree.ancestors(memcg).nth(steps).unwrap_or(memcg);
        self.face(memcg, target);
        self.tree.swap_available(target) > Pages(0)
    }

    /// The level of `id`.
    #[cfg(test)]
    pub(super) fn level(&mut self, id: MemcgId) -> Level {
        self.flush();
        self.hierarchy.node(id).level
    }

    /// Asserts the invariant.
    pub(super) fn check_level(&self, id: MemcgId) {
        if self.classic().is_none() {
            return;
        }
        let of = |id: MemcgId| self.hierarchy.nodes.get(id.index());
        let level = |id| of(id).map_or_else(Level::default, |node| node.level);
        let told = of(id).map_or_else(Level::default, |node| node.told);
        let children = self.tree.children(id).map(level);
        let (mut sizes, mut age) = (told.sizes, told.nonresident_age);
        for child in children {
            sizes = sizes.plus(child.sizes);
            age += child.nonresident_age;
        }
        assert_eq!(level(id).sizes, sizes, "the level of {id:?}");
        assert!(level(id).nonresident_age >= age, "the clock of {id:?}");
        let own = self.lruvec(id).classic().map(|lru| lru.own());
        let flushed = of(id).map_or_else(Level::default, |node| node.flushed);
        let mut pairs = flushed.activations.into_iter().zip(level(id).activations);
        let is_less = pairs.all(|(was, is)| was <= is);
        assert!(is_less, "activations of {id:?} that were shown are gone");
        let is_seen = own.is_some_and(|own| own.sizes == told.sizes);
        assert!(is_seen || self.has_changed(id), "{id:?} has changed unseen");
    }
}

#[cfg(test)]
mod tests;
