//! Usage as measured, where not all of it is charged: on a host page cache counts, and so do pages that
//! no walk has seen yet.
//!
//! A measurement sets how many pages of a memcg are *unseen*: measured less charged, and less than none
//! where others are charged for some. What is charged and uncharged from then on counts on top, so that
//! reclaim sees what it got, until the next measurement. A page that was in use when it was measured
//! and is charged only afterwards counts twice until then: walk first, then measure.
//!
//! Invariant: the unseen pages of a memcg that was not measured itself are the sum of its children's; so
//! its usage is its own pages and its children's usage. Those of one that was measured are what its
//! measurement told, whatever its children's say.

use super::{MemcgId, MemcgTree};
use crate::units::Pages;

impl MemcgTree {
    /// The usage of `id`, for its limits and its protection, is so many pages; `None` for what is
    /// counted.
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

/// More pages than any machine has, and few enough that those of all memcgs can be summed.
const MOST: u64 = 1 << 44;

fn difference(a: Pages, b: Pages) -> i64 {
    let amount = a.0.abs_diff(b.0).min(MOST).cast_signed();
    if a < b { -amount } else { amount }
}
