//! Shadow nodes: bounds the memory of shadows in an index that stores them in nodes of 64 slots, as
//! a kernel does, and says which nodes are dropped first.
//! spec: workingset.md 7.
//!
//! The engine's own shadows are in the words of their pages and cost no memory.
//! `lruvec/shadow_bound.rs` bounds them nevertheless to simulate a kernel; a slot is then a folio
//! id.
//!
//! Invariants (workingset.md 11): a node is tracked if and only if it contains shadows and no page
//! (I5); after shrinking, at most pages / 8 nodes are tracked (I6).

use alloc::collections::BTreeMap;

/// Number of slots of a node.
pub const CHUNK_SLOTS: u64 = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    pages: u32,
    shadows: u32,
    /// For a tracked node: a sequence number of when the node became tracked.
    since: u64,
}

impl Node {
    const fn is_tracked(self) -> bool {
        self.shadows > 0 && self.pages == 0
    }
}

/// The nodes of one index; tracked nodes in the order in which they became tracked.
#[derive(Debug, Default)]
pub struct ShadowNodes {
    nodes: BTreeMap<u64, Node>,
    /// The tracked nodes, by their `since`.
    tracked: BTreeMap<u64, u64>,
    changes: u64,
    reclaimed: u64,
}

/// Returns the number of tracked nodes beyond the allowed `pages / 8`.
#[must_use]
pub const fn excess_nodes(tracked: u64, pages: u64) -> u64 {
    tracked.saturating_sub(pages / 8)
}

impl ShadowNodes {
    /// Returns `workingset_nodes`: the number of nodes tracked now.
    #[must_use]
    pub fn tracked(&self) -> u64 {
        self.tracked.len() as u64
    }

    /// Returns `workingset_nodereclaim`: the number of nodes reclaimed so far.
    #[must_use]
    pub const fn reclaimed(&self) -> u64 {
        self.reclaimed
    }

    fn change(&mut self, slot: u64, pages: i32, shadows: i32) {
        let key = slot / CHUNK_SLOTS;
        let node = self.nodes.entry(key).or_default();
        let was = node.is_tracked();
        let added = |count: u32, by| count.checked_add_signed(by).expect("a slot counted twice");
        (node.pages, node.shadows) = (added(node.pages, pages), added(node.shadows, shadows));
        match (was, node.is_tracked()) {
            (false, true) => {
                self.changes += 1;
                node.since = self.changes;
                self.tracked.insert(node.since, key);
            }
            (true, false) => {
                self.tracked.remove(&node.since);
            }
            _ => {}
        }
        if (node.pages, node.shadows) == (0, 0) {
            self.nodes.remove(&key);
        }
    }

    /// Notes that a page without a shadow is inserted at `slot`.
    pub fn page_in(&mut self, slot: u64) {
        self.change(slot, 1, 0);
    }

    /// Notes that the page of `slot` is evicted and becomes a shadow.
    pub fn evicted(&mut self, slot: u64) {
        self.change(slot, -1, 1);
    }

    /// Notes that the page of `slot` refaults, which removes its shadow.
    pub fn refaulted(&mut self, slot: u64) {
        self.change(slot, 1, -1);
    }

    /// Notes that the page of `slot` is removed without a shadow.
    pub fn removed(&mut self, slot: u64) {
        self.change(slot, -1, 0);
    }

    /// Returns the number of pages and the number of shadows in the node of `slot`.
    #[must_use]
    pub fn contents(&self, slot: u64) -> (u32, u32) {
        let node = self
            .nodes
            .get(&(slot / CHUNK_SLOTS))
            .copied()
            .unwrap_or_default();
        (node.pages, node.shadows)
    }

    /// Notes that the shadow of `slot` is removed because its program removed the page
    /// (truncation).
    pub fn truncated(&mut self, slot: u64) {
        self.change(slot, 0, -1);
    }

    /// Drops the oldest tracked node with all its shadows, and returns its first slot; `None` if no
    /// node is tracked. Refaults of its [`CHUNK_SLOTS`] slots are not counted from then on.
    pub fn reclaim_oldest(&mut self) -> Option<u64> {
        let (_, key) = self.tracked.pop_first()?;
        self.nodes.remove(&key);
        self.reclaimed += 1;
        Some(key * CHUNK_SLOTS)
    }

    /// Asserts I5.
    ///
    /// # Panics
    /// When the invariant does not hold.
    pub fn check_invariants(&self) {
        let mut tracked: alloc::vec::Vec<u64> = self.tracked.values().copied().collect();
        tracked.sort_unstable();
        let expect = self.nodes.iter().filter(|(_, node)| node.is_tracked());
        assert!(expect.map(|(&key, _)| key).eq(tracked), "I5");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twelve_nodes() -> ShadowNodes {
        let mut nodes = ShadowNodes::default();
        for slot in 0..12 * CHUNK_SLOTS {
            nodes.page_in(slot);
            nodes.evicted(slot);
            nodes.check_invariants();
        }
        nodes
    }

    /// With 80 pages in memory 10 of 12 shadow nodes are allowed; the two oldest are dropped.
    /// spec: workingset.md 12, test 14.
    #[test]
    fn nodes_beyond_an_eighth_are_dropped_oldest_first() {
        let mut nodes = twelve_nodes();
        assert_eq!(
            (nodes.tracked(), excess_nodes(nodes.tracked(), 80)),
            (12, 2)
        );
        assert_eq!(nodes.reclaim_oldest(), Some(0));
        assert_eq!(nodes.reclaim_oldest(), Some(CHUNK_SLOTS));
        assert_eq!(
            (nodes.reclaimed(), excess_nodes(nodes.tracked(), 80)),
            (2, 0)
        );
        // A page whose shadow was dropped is inserted as a new page.
        nodes.page_in(0);
        nodes.check_invariants();
        assert_eq!(nodes.tracked(), 10);
    }

    #[test]
    fn a_page_among_shadows_keeps_its_node() {
        let mut nodes = twelve_nodes();
        nodes.refaulted(70);
        nodes.check_invariants();
        assert_eq!(nodes.tracked(), 11);
        nodes.evicted(70);
        assert_eq!(nodes.tracked(), 12);
        (64..128).for_each(|slot| nodes.truncated(slot));
        nodes.check_invariants();
        assert_eq!(nodes.tracked(), 11);
        assert_eq!(excess_nodes(0, 0), 0);
    }

    #[test]
    #[should_panic(expected = "I5")]
    fn canary_a_node_is_not_tracked() {
        let mut nodes = twelve_nodes();
        nodes.tracked.pop_last();
        nodes.check_invariants();
    }
}
