//! Measured usage of memcgs. On a host it includes pages that were never charged here: page cache,
//! and pages that no walk has found yet.
//!
//! A measurement sets how many pages of a memcg are *unseen*: measured pages minus charged ones.
//! The number is negative if other memcgs are charged for some of its pages. Until the next
//! measurement, charges and uncharges change the usage, so that a reclaim sees its own effect. A
//! page that was in use when usage was measured, but is charged only afterwards, counts twice until
//! the next measurement. So the caller must walk first, then measure.
//!
//! Invariant: the number of unseen pages of a memcg that was not measured itself is the sum of its
//! children's, so its usage is its own pages plus its children's usage. For a measured memcg the
//! number follows from its own measurement alone.

use super::{MemcgId, MemcgTree};
use crate::units::Pages;

impl MemcgTree {
    /// Sets the measured usage of `id`, in pages, for its limits and its protection. With `None`
    /// its counted usage applies again.
    pub fn set_measured(&mut self, id: MemcgId, usage: Option<Pages>) {
        let before = self.get(id).unseen();
        let unseen = match usage {
            Some(usage) => difference(usage, self.get(id).charged()),
            None => self.unseen_below(id),
        };
        self.node_mut(id).measured = usage.is_some();
        self.change(id, |memcg| memcg.set_unseen(unseen));
        let change = unseen - before;
        let mut at = self.parent(id);
        while let Some(above) = at.filter(|&above| change != 0 && !self.node(above).measured) {
            self.change(above, |memcg| memcg.set_unseen(memcg.unseen() + change));
            at = self.parent(above);
        }
    }

    fn unseen_below(&self, id: MemcgId) -> i64 {
        let children = self.children(id);
        children.map(|child| self.get(child).unseen()).sum()
    }

    pub(super) fn check_measured(&self, id: MemcgId) {
        let is_sum_of_children = self.get(id).unseen() == self.unseen_below(id);
        assert!(self.node(id).measured || is_sum_of_children, "unseen pages");
    }
}

/// Largest number of unseen pages of a memcg: more pages than any machine has, but few enough that
/// the sum over all memcgs does not overflow.
const MAX_UNSEEN: u64 = 1 << 44;

fn difference(a: Pages, b: Pages) -> i64 {
    let amount = a.0.abs_diff(b.0).min(MAX_UNSEEN).cast_signed();
    if a < b { -amount } else { amount }
}
