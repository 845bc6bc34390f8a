//! Reclaim by age: what nobody has used for a while leaves, whether memory is short or not.
//!
//! Invariants: no more than was asked for leaves; what is effectively below its min stays.

use super::{Machine, ReclaimRequest};
use crate::lru_gen::DEF_PRIORITY;
use crate::memcg::MemcgId;
use crate::units::{Millis, Pages};
use crate::vmscan::{Memory, ScanReason, Shrunk, shrink_older_than};

impl Machine {
    /// Evicts up to `most` pages of `memcg` and all below it that have been idle for `age` at least, as
    /// far as generations can tell: age at intervals of `age` ([`Self::walk_and_age`]), and never at
    /// half of it or less. A page of the oldest generation that a walk finds young for the first time is
    /// only marked there (lru-gen.md 3), and aging clears the mark: a memory that knows each access tells
    /// [`crate::Lruvec::young`] twice, which moves it to the youngest. A memcg of which a whole batch could not
    /// go for a reason that is not its pages' own is left alone for this time.
    /// Nothing under the classic policy, which knows no ages.
    pub fn reclaim_older_than<M: Memory>(
        &mut self,
        memcg: MemcgId,
        age: Millis,
        most: Pages,
        now: Millis,
        memory: &mut M,
    ) -> Shrunk {
        let mut total = Shrunk::default();
        for id in self.tree.pre_order(memcg) {
            let nr = most.less(total.reclaimed);
            if nr == Pages(0) {
                break;
            }
            self.tree.calculate_protection(memcg, id);
            if self.tree.below_min(memcg, id) {
                continue;
            }
            let request = ReclaimRequest {
                reason: ScanReason::Proactive,
                nr,
                swappiness: None,
                now,
            };
            let sc = self.scan_control(id, request, DEF_PRIORITY);
            total.visited += 1;
            total.add(self.book(id, &sc, |lruvec, sc| {
                shrink_older_than(id, lruvec, (age, sc), memory)
            }));
            self.release_if_empty(id);
        }
        total
    }
}

#[cfg(test)]
mod tests;
