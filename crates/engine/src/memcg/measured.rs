//! Measured usage, which includes pages that were never charged: on a host, page cache counts, and
//! so do pages that no walk has seen yet.
//!
//! A measurement sets how many pages of a memcg are *unseen*: measured pages minus charged ones.
//! The number is negative where other memcgs are charged for some. Later charges and uncharges
//! change the usage, so that reclaim sees what it reclaimed, until the next measurement. A page
//! that was in use when usage was measured, but is charged only afterwards, counts twice until
//! then: walk first, then measure.
//!
//! Invariant: the unseen pages of a memcg that was not measured itself are the sum of its
//! children's; so its usage is its own pages and its children's usage. Those of a measured memcg
//! are what its own measurement says, independent of its children's.

use super::{MemcgId, MemcgTree};
use crate::units::Pages;

impl MemcgTree {
    /// Sets the measured usage of `id`, for its limits and its protection; with `None` the counted
    /// usage applies again.
    pub fn set_measured(&mut self, id: MemcgId, usage: Option<Pages>) {
        let before = self.get(id).unseen();
        let unseen = match usage {
            Some(usage) => difference(usage, self.get(id).charged()),
            None => self.unseen_below(id),
        };
        self.node_mut(id).measured = usage.is_some();
        self.change(id, |memcg| memcg.set_unseen(unseen));
        let more = unseen - before;
        let mut at = self.parent(id);
        while let Some(above) = at.filter(|&above| more != 0 && !self.node(above).measured) {
            self.change(above, |memcg| memcg.set_unseen(memcg.unseen() + more));
            at = self.parent(above);
        }
    }

    fn unseen_below(&self, id: MemcgId) -> i64 {
        let children = self.children(id);
        children.map(|child| self.get(child).unseen()).sum()
    }

    pub(super) fn check_measured(&self, id: MemcgId) {
        let made_of_children = self.get(id).unseen() == self.unseen_below(id);
        assert!(self.node(id).measured || made_of_children, "unseen pages");
    }
}

/// More pages than any machine has, but so few that the sum over all memcgs does not overflow.
const MOST: u64 = 1 << 44;

fn difference(a: Pages, b: Pages) -> i64 {
    let amount = a.0.abs_diff(b.0).min(MOST).cast_signed();
    if a < b { -amount } else { amount }
}
