//! The tree of memcgs: a charge goes to a memcg and all its ancestors.
//! spec: reclaim-control.md 1, 2.
//!
//! Invariants:
//! - the charge of a parent is at least the sum of its children's charges (I1); the difference is
//!   its own pages and its stocks;
//! - usage that was measured but not charged is in `measured.rs`;
//! - `children_min` and `children_low` of a node are the sums of its children's claims: of each
//!   child the smaller of its pages and its min or low. Effective protection divides these. A
//!   memcg's pages count as at least what its children claim;
//! - an offline memcg has no protection; its id is reused only after it is released.

use super::order::Links;
use super::stock::Stocks;
use super::{HighOverages, effective_protection};
use super::{Memcg, MemcgEvent, MemcgLimits, Protection, ProtectionInput};
use crate::units::{Pages, Swappiness};
use alloc::vec::Vec;

/// A memcg of a [`MemcgTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemcgId(pub u32);

impl MemcgId {
    /// The root, which has no limits.
    pub const ROOT: Self = Self(0);
    /// The first memcg created below the root: the only tenant of a machine for one process.
    pub const FIRST: Self = Self(1);

    /// Returns the id as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) memcg: Memcg,
    pub(super) parent: Option<MemcgId>,
    pub(super) links: Links,
    online: bool,
    /// Whether this memcg stands for the root of a hierarchy: its own min and low do not limit the
    /// protection of its children.
    grants_all: bool,
    /// Whether the usage of this memcg was measured, so that it is not the sum of its children's.
    pub(super) measured: bool,
    /// Whether this memcg is in `eventful`.
    is_eventful: bool,
    children_min: Pages,
    children_low: Pages,
}

/// Error: a charge would exceed the memory.max of the memcg `at`; nothing was charged anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverMax {
    /// The memcg whose memory.max would be exceeded.
    pub at: MemcgId,
}

/// All memcgs.
#[derive(Debug)]
pub struct MemcgTree {
    pub(super) nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    /// Whether the mount option memory_recursiveprot is set.
    recursive: bool,
    stocks: Stocks,
    /// Memcgs with events counted since the last `take_eventful`.
    eventful: Vec<MemcgId>,
}

impl MemcgTree {
    /// Creates a tree with only a root. Each of `workers` charges `batch` pages ahead (64 in the
    /// kernel); with 1, charges are exact. `recursive`: the mount option memory_recursiveprot.
    #[must_use]
    pub fn new(recursive: bool, workers: usize, batch: u64) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            free: Vec::new(),
            recursive,
            stocks: Stocks::new(workers, batch),
            eventful: Vec::new(),
        };
        tree.nodes.push(Some(Node::new(None)));
        tree
    }

    /// Returns the memcg with the id `id`.
    ///
    /// # Panics
    /// When `id` has been released. All methods that take an id panic then.
    #[must_use]
    pub fn get(&self, id: MemcgId) -> &Memcg {
        &self.node(id).memcg
    }

    /// Whether `id` is a memcg that has not been released.
    #[must_use]
    pub fn exists(&self, id: MemcgId) -> bool {
        self.nodes.get(id.index()).is_some_and(Option::is_some)
    }

    pub(super) fn node(&self, id: MemcgId) -> &Node {
        self.nodes[id.index()].as_ref().expect("a released memcg")
    }

    pub(super) fn node_mut(&mut self, id: MemcgId) -> &mut Node {
        self.nodes[id.index()].as_mut().expect("a released memcg")
    }

    /// Creates a child of `parent`, with the parent's swappiness and no limits.
    pub fn create(&mut self, parent: MemcgId) -> MemcgId {
        let swappiness = self.get(parent).swappiness();
        let mut node = Node::new(Some(parent));
        node.memcg.set_swappiness(swappiness);
        let id = match self.free.pop() {
            Some(id) => MemcgId(id),
            None => MemcgId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 memcgs")),
        };
        if id.index() == self.nodes.len() {
            self.nodes.push(Some(node));
        } else {
            self.nodes[id.index()] = Some(node);
        }
        self.link(parent, id);
        id
    }

    /// Takes `id` offline, because its control group was removed: its protection ends; its pages
    /// stay until they are reclaimed.
    pub fn offline(&mut self, id: MemcgId) {
        let limits = self.get(id).limits();
        self.set_limits(
            id,
            MemcgLimits {
                min: Pages(0),
                low: Pages(0),
                ..limits
            },
        );
        self.node_mut(id).online = false;
        self.set_measured(id, None);
        self.stocks_drain(Some(id));
    }

    /// Whether `id` is online: false after [`Self::offline`].
    #[must_use]
    pub fn is_online(&self, id: MemcgId) -> bool {
        self.node(id).online
    }

    /// Whether `id` is an offline memcg without charges and children.
    #[must_use]
    pub fn is_releasable(&self, id: MemcgId) -> bool {
        let node = self.node(id);
        let is_empty = !node.links.has_children()
            && node.memcg.charged() == Pages(0)
            && node.memcg.swap_usage() == Pages(0);
        !node.online && node.parent.is_some() && is_empty
    }

    /// Releases `id` if it [is releasable](Self::is_releasable); returns whether it was.
    pub fn release(&mut self, id: MemcgId) -> bool {
        let Some(parent) = self.parent(id).filter(|_| self.is_releasable(id)) else {
            return false;
        };
        self.set_measured(id, None);
        self.unlink(parent, id);
        self.nodes[id.index()] = None;
        self.free.push(id.0);
        true
    }

    /// Returns the parent of `id`; `None` for the root.
    #[must_use]
    pub fn parent(&self, id: MemcgId) -> Option<MemcgId> {
        self.node(id).parent
    }

    /// Replaces the limits of `id`.
    pub fn set_limits(&mut self, id: MemcgId, limits: MemcgLimits) {
        let before = self.claimed(id);
        self.node_mut(id).memcg.set_limits(limits);
        self.update_parent(id, before);
    }

    /// Makes `id` stand for the root of a hierarchy; a tree may have several. The effective
    /// protection of its children is then their own min and low, as for children of the root; that
    /// of `id` does not limit them.
    /// spec: reclaim-control.md 2.1.
    pub fn set_hierarchy_root(&mut self, id: MemcgId) {
        self.node_mut(id).grants_all = true;
    }

    /// Sets memory.swappiness of `id`.
    pub fn set_swappiness(&mut self, id: MemcgId, swappiness: Swappiness) {
        self.node_mut(id).memcg.set_swappiness(swappiness);
    }

    /// Charges `nr` pages to `id` and its ancestors; takes them from the stock of `worker` if it
    /// has enough.
    ///
    /// # Errors
    /// [`OverMax`] with the lowest memcg whose memory.max would be exceeded.
    pub fn try_charge(&mut self, worker: usize, id: MemcgId, nr: Pages) -> Result<(), OverMax> {
        if self.stocks.consume(worker, id, nr) {
            return Ok(());
        }
        let ahead = Pages(self.stocks.batch().max(nr.0));
        if self.charge_all(id, ahead).is_ok() {
            let spare = ahead.less(nr);
            if let Some((other, pages)) = self.stocks.refill(worker, id, spare) {
                self.uncharge_all(other, pages);
            }
            return Ok(());
        }
        self.charge_all(id, nr)
    }

    /// Charges `nr` pages, even over limits. Counts the event MAX at the lowest memcg whose
    /// memory.max is then exceeded.
    pub fn charge_forced(&mut self, id: MemcgId, nr: Pages) {
        if let Err(over) = self.charge_all(id, nr) {
            self.event(over.at, MemcgEvent::Max);
            self.each_ancestor(id, |memcg| memcg.charge_unchecked(nr));
        }
    }

    /// Uncharges `nr` pages of `id`. If they fit into the stock of `worker`, they stay charged in
    /// that stock instead.
    pub fn uncharge(&mut self, worker: usize, id: MemcgId, nr: Pages) {
        if let Some((id, nr)) = self.stocks.refill(worker, id, nr) {
            self.uncharge_all(id, nr);
        }
    }

    /// Uncharges all stocks.
    pub fn drain_stocks(&mut self) {
        self.stocks_drain(None);
    }

    /// Returns the number of pages charged to `id` that are in stocks.
    #[must_use]
    pub fn stocked(&self, id: MemcgId) -> Pages {
        self.stocks.of(id)
    }

    fn stocks_drain(&mut self, id: Option<MemcgId>) {
        for (id, nr) in self.stocks.drain(id) {
            self.uncharge_all(id, nr);
        }
    }

    fn charge_all(&mut self, id: MemcgId, nr: Pages) -> Result<(), OverMax> {
        let mut next = Some(id);
        while let Some(at) = next {
            let before = self.claimed(at);
            if self.node_mut(at).memcg.try_charge(nr).is_err() {
                self.uncharge_below(id, at, nr);
                return Err(OverMax { at });
            }
            self.update_parent(at, before);
            next = self.parent(at);
        }
        Ok(())
    }

    /// Undoes the charge of `nr` pages for `id` and the memcgs above it, up to but without `top`,
    /// which refused the charge.
    fn uncharge_below(&mut self, id: MemcgId, top: MemcgId, nr: Pages) {
        let mut at = id;
        while at != top {
            self.change(at, |memcg| memcg.uncharge(nr));
            let Some(parent) = self.parent(at) else { break };
            at = parent;
        }
    }

    fn uncharge_all(&mut self, id: MemcgId, nr: Pages) {
        self.each_ancestor(id, |memcg| memcg.uncharge(nr));
    }

    /// Charges swap for `nr` anon pages of `id` that were swapped out.
    pub fn charge_swap(&mut self, id: MemcgId, nr: Pages) {
        self.each_ancestor(id, |memcg| memcg.charge_swap(nr));
    }

    /// Uncharges swap of `nr` anon pages of `id` that are no longer swapped out.
    pub fn uncharge_swap(&mut self, id: MemcgId, nr: Pages) {
        self.each_ancestor(id, |memcg| memcg.uncharge_swap(nr));
    }

    /// Returns how many more pages of `id` may be swapped out: the minimum over `id` and its
    /// ancestors.
    #[must_use]
    pub fn swap_available(&self, id: MemcgId) -> Pages {
        let levels = self.ancestors(id).map(|id| self.get(id).swap_available());
        levels.min().unwrap_or(Pages(0))
    }

    fn each_ancestor(&mut self, id: MemcgId, f: impl Fn(&mut Memcg)) {
        let mut at = Some(id);
        while let Some(id) = at {
            self.change(id, &f);
            at = self.parent(id);
        }
    }

    pub(super) fn change(&mut self, id: MemcgId, f: impl FnOnce(&mut Memcg)) {
        let before = self.claimed(id);
        f(&mut self.node_mut(id).memcg);
        self.update_parent(id, before);
    }

    /// Returns how many pages of `id` min and low can protect at most: its pages, but at least what
    /// its children claim. (After measurements, or if processes were moved here, children may claim
    /// more than the usage of `id`.)
    fn protectable(&self, id: MemcgId) -> Protection {
        let node = self.node(id);
        let held = node.memcg.held();
        Protection {
            min: held.max(node.children_min),
            low: held.max(node.children_low),
        }
    }

    /// Returns how many pages of its parent's protection `id` claims: the smaller of
    /// [`Self::protectable`] and the setting, for min and for low.
    fn claimed(&self, id: MemcgId) -> Protection {
        let (protectable, limits) = (self.protectable(id), self.get(id).limits());
        Protection {
            min: protectable.min.min(limits.min),
            low: protectable.low.min(limits.low),
        }
    }

    /// Updates the sums of claims in the memcgs above `id`, up to the first that does not change.
    /// `before` is the former claim of `id`.
    fn update_parent(&mut self, id: MemcgId, before: Protection) {
        let (mut id, mut before) = (id, before);
        loop {
            let after = self.claimed(id);
            let Some(parent_id) = self.parent(id).filter(|_| before != after) else {
                return;
            };
            let parent_before = self.claimed(parent_id);
            let parent = self.node_mut(parent_id);
            parent.children_min.0 = parent.children_min.0 + after.min.0 - before.min.0;
            parent.children_low.0 = parent.children_low.0 + after.low.0 - before.low.0;
            (id, before) = (parent_id, parent_before);
        }
    }

    /// Computes the effective protection of `id` against a reclaim of `root`. The caller has
    /// computed that of its parent before.
    /// spec: reclaim-control.md 2.1.
    pub fn calculate_protection(&mut self, root: MemcgId, id: MemcgId) {
        let Some(parent_id) = self.parent(id).filter(|_| id != root) else {
            return;
        };
        let (memcg, parent) = (self.get(id), self.node(parent_id));
        let limits = memcg.limits();
        let (protectable, parent_protectable) = (self.protectable(id), self.protectable(parent_id));
        if protectable.min == Pages(0) && protectable.low == Pages(0) {
            return;
        }
        let own = Protection {
            min: limits.min,
            low: limits.low,
        };
        let protection = if parent_id == root || parent.grants_all {
            own
        } else {
            let granted = parent.memcg.protection();
            let share = |(usage, parent_usage), setting, parent_effective, siblings_protected| {
                effective_protection(ProtectionInput {
                    usage,
                    parent_usage,
                    setting,
                    parent_effective,
                    siblings_protected,
                    recursive: self.recursive,
                })
            };
            Protection {
                min: share(
                    (protectable.min, parent_protectable.min),
                    own.min,
                    granted.min,
                    parent.children_min,
                ),
                low: share(
                    (protectable.low, parent_protectable.low),
                    own.low,
                    granted.low,
                    parent.children_low,
                ),
            }
        };
        self.node_mut(id).memcg.set_protection(protection);
    }

    /// Calls [`Self::calculate_protection`] for the memcgs between `root` and `id`, from the top
    /// down, and for `id`.
    pub fn calculate_path(&mut self, root: MemcgId, id: MemcgId) {
        // Most memcgs are children of the root, with no memcg between.
        if self.parent(id) == Some(root) {
            self.calculate_protection(root, id);
            return;
        }
        let path: Vec<MemcgId> = self.ancestors(id).take_while(|&id| id != root).collect();
        for &id in path.iter().rev() {
            self.calculate_protection(root, id);
        }
    }

    /// Whether min protects all pages of `id` from a reclaim of `target`.
    #[must_use]
    pub fn below_min(&self, target: MemcgId, id: MemcgId) -> bool {
        id != target && id != MemcgId::ROOT && self.get(id).below_min()
    }

    /// Whether low protects all pages of `id` from a reclaim of `target` (until nothing else
    /// remains to reclaim).
    #[must_use]
    pub fn below_low(&self, target: MemcgId, id: MemcgId) -> bool {
        id != target && id != MemcgId::ROOT && self.get(id).below_low()
    }

    /// Returns the largest overages of memory.high and of memory.swap.high among `id` and its
    /// ancestors; the throttle delay is computed from them.
    #[must_use]
    pub fn high_overages(&self, id: MemcgId) -> HighOverages {
        let levels = self.ancestors(id).map(|id| self.get(id).high_overages());
        levels.fold(HighOverages::default(), HighOverages::max)
    }

    /// Counts an event at `id` itself, not at its ancestors.
    pub fn event(&mut self, id: MemcgId, event: MemcgEvent) {
        let node = self.node_mut(id);
        node.memcg.event(event);
        if !core::mem::replace(&mut node.is_eventful, true) {
            self.eventful.push(id);
        }
    }

    /// Removes and returns the memcgs that have counted events since the last call.
    pub(crate) fn take_eventful(&mut self) -> Vec<MemcgId> {
        if self.eventful.is_empty() {
            return Vec::new();
        }
        let eventful = core::mem::take(&mut self.eventful);
        for &id in &eventful {
            if let Some(node) = &mut self.nodes[id.index()] {
                node.is_eventful = false;
            }
        }
        eventful
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        self.check_links();
        for (index, node) in (0u32..).zip(&self.nodes) {
            let Some(node) = node else { continue };
            let sum = |f: &dyn Fn(MemcgId) -> Pages| {
                Pages(self.children(MemcgId(index)).map(|id| f(id).0).sum())
            };
            let children = sum(&|id| self.get(id).charged());
            assert!(children <= node.memcg.charged(), "I1: memcg {index}");
            self.check_measured(MemcgId(index));
            assert_eq!(
                node.children_min,
                sum(&|id| self.claimed(id).min),
                "memcg {index}"
            );
            assert_eq!(
                node.children_low,
                sum(&|id| self.claimed(id).low),
                "memcg {index}"
            );
        }
    }
}

impl Node {
    fn new(parent: Option<MemcgId>) -> Self {
        Self {
            memcg: Memcg::new(MemcgLimits::default(), Swappiness::default()),
            parent,
            links: Links::default(),
            online: true,
            grants_all: false,
            measured: false,
            is_eventful: false,
            children_min: Pages(0),
            children_low: Pages(0),
        }
    }
}

#[cfg(test)]
mod tests;
