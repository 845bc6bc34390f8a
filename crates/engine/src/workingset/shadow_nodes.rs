//! How much memory shadows may take in an index that keeps them in nodes of 64 slots, and which
//! nodes go first. spec: workingset.md 7.
//!
//! The engine's own shadows lie in their pages' words and cost nothing; `lruvec/shadow_bound.rs` bounds
//! them all the same, where a kernel's memory is simulated. No other index is needed for that: a slot is
//! a folio id.
//!
//! Invariants (workingset.md 11): a node is tracked iff it holds shadows and no page (I5); after
//! shrinking to the target no more than pages / 8 are tracked (I6).

use alloc::collections::BTreeMap;

/// Slots of a node.
pub const CHUNK_SLOTS: u64 = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    pages: u32,
    shadows: u32,
    /// Its place in the order of age, while it is tracked.
    since: u64,
}

impl Node {
    const fn is_tracked(self) -> bool {
        self.shadows > 0 && self.pages == 0
    }
}

/// The nodes of one index, those tracked in the order in which they came to be.
#[derive(Debug, Default)]
pub struct ShadowNodes {
    nodes: BTreeMap<u64, Node>,
    /// Nodes by the time since when they are tracked.
    tracked: BTreeMap<u64, u64>,
    changes: u64,
    reclaimed: u64,
}

/// What the count of tracked nodes says: how many are too many for so many pages.
#[must_use]
pub const fn excess_nodes(tracked: u64, pages: u64) -> u64 {
    tracked.saturating_sub(pages / 8)
}

impl ShadowNodes {
    /// `workingset_nodes`: nodes tracked now.
    #[must_use]
    pub fn tracked(&self) -> u64 {
        self.tracked.len() as u64
    }

    /// `workingset_nodereclaim`: nodes reclaimed so far.
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

    /// A page without a shadow comes into `slot`.
    pub fn page_in(&mut self, slot: u64) {
        self.change(slot, 1, 0);
    }

    /// The page of `slot` is evicted and leaves its shadow.
    pub fn evicted(&mut self, slot: u64) {
        self.change(slot, -1, 1);
    }

    /// The page of `slot` comes back and consumes its shadow.
    pub fn refaulted(&mut self, slot: u64) {
        self.change(slot, 1, -1);
    }

    /// The page of `slot` is removed and leaves no shadow.
    pub fn removed(&mut self, slot: u64) {
        self.change(slot, -1, 0);
    }

    /// Pages and shadows of the node that holds `slot`.
    #[must_use]
    pub fn contents(&self, slot: u64) -> (u32, u32) {
        let node = self
            .nodes
            .get(&(slot / CHUNK_SLOTS))
            .copied()
            .unwrap_or_default();
        (node.pages, node.shadows)
    }

    /// The shadow of `slot` is consumed by truncation.
    pub fn truncated(&mut self, slot: u64) {
        self.change(slot, 0, -1);
    }

    /// Frees the oldest tracked node with all its shadows: the slots from the number that is
    /// returned on, [`CHUNK_SLOTS`] of them, refault uncounted from now on.
    pub fn reclaim_oldest(&mut self) -> Option<u64> {
        let (_, key) = self.tracked.pop_first()?;
        self.nodes.remove(&key);
        self.reclaimed += 1;
        Some(key * CHUNK_SLOTS)
    }

    /// Asserts I5.
    ///
    /// # Panics
    /// When it does not hold.
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

    /// workingset.md 12, test 14.
    #[test]
    fn what_is_more_than_an_eighth_goes_oldest_first() {
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
        // The page of a slot whose shadow went comes in as one never seen.
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
