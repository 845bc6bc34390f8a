//! The links of the memcg tree: parents, children, and the order of a walk. Each step of a walk and
//! each change of the tree takes constant time, however many siblings there are.
//!
//! Invariants: each memcg that is not released is exactly once among its parent's children, which
//! are in order of creation; `older` and `younger` are each other's reverse; the root has no
//! siblings.

use super::{MemcgId, MemcgTree};
use alloc::vec::Vec;

/// The links of one memcg: to its oldest and youngest child, and to its next older and younger
/// sibling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    first: Option<MemcgId>,
    last: Option<MemcgId>,
    older: Option<MemcgId>,
    younger: Option<MemcgId>,
}

impl Links {
    pub(super) const fn has_children(&self) -> bool {
        self.first.is_some()
    }
}

impl MemcgTree {
    /// Returns the children of `id`, in the order of their creation.
    pub fn children(&self, id: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        let first = self.node(id).links.first;
        core::iter::successors(first, |&child| self.node(child).links.younger)
    }

    /// Returns `id` and its ancestors, up to the root.
    pub fn ancestors(&self, id: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        core::iter::successors(Some(id), |&id| self.parent(id))
    }

    /// Makes `id`, which must have no links, the youngest child of `parent`.
    pub(super) fn link(&mut self, parent: MemcgId, id: MemcgId) {
        let older = self.node_mut(parent).links.last.replace(id);
        self.node_mut(id).links.older = older;
        match older {
            Some(older) => self.node_mut(older).links.younger = Some(id),
            None => self.node_mut(parent).links.first = Some(id),
        }
    }

    /// Removes `id`, which must have no children, from the children of `parent`.
    pub(super) fn unlink(&mut self, parent: MemcgId, id: MemcgId) {
        let Links { older, younger, .. } = core::mem::take(&mut self.node_mut(id).links);
        match older {
            Some(older) => self.node_mut(older).links.younger = younger,
            None => self.node_mut(parent).links.first = younger,
        }
        match younger {
            Some(younger) => self.node_mut(younger).links.older = older,
            None => self.node_mut(parent).links.last = older,
        }
    }

    /// Returns `root` and its descendants, each after its parent (in pre-order).
    #[must_use]
    pub fn pre_order(&self, root: MemcgId) -> Vec<MemcgId> {
        core::iter::successors(Some(root), |&id| self.after(root, id)).collect()
    }

    /// Returns the memcg that follows `id` in [`Self::pre_order`] of `root`; `None` after the last
    /// one.
    #[must_use]
    pub fn after(&self, root: MemcgId, id: MemcgId) -> Option<MemcgId> {
        let mut links = self.node(id).links;
        if links.has_children() {
            return links.first;
        }
        let mut at = id;
        while at != root {
            if links.younger.is_some() {
                return links.younger;
            }
            at = self.parent(at)?;
            links = self.node(at).links;
        }
        None
    }

    /// Returns the memcg that precedes `id` in [`Self::pre_order`]; `None` for the root.
    #[must_use]
    pub fn before(&self, id: MemcgId) -> Option<MemcgId> {
        let Some(older) = self.node(id).links.older else {
            return self.parent(id);
        };
        let mut last = older;
        while let Some(child) = self.node(last).links.last {
            last = child;
        }
        Some(last)
    }

    /// Asserts the invariants.
    pub(super) fn check_links(&self) {
        let all = self.pre_order(MemcgId::ROOT);
        let existing = self.nodes.iter().flatten().count();
        assert_eq!(all.len(), existing, "each memcg is the child of another");
        for id in all {
            let mut older = None;
            for child in self.children(id) {
                assert_eq!(self.parent(child), Some(id), "{child:?}");
                assert_eq!(self.node(child).links.older, older, "{child:?}");
                older = Some(child);
            }
            assert_eq!(self.node(id).links.last, older, "youngest of {id:?}");
        }
    }
}
