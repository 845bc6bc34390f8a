//! One reclaimer's walk over the old generation.
//! spec: memcg-lru.md 5.
//!
//! Between two calls of [`MemcgWalk::next`] the walk holds nothing; any number of walks and moves
//! may interleave. An entry's pending operation is carried out only when the walk moves past the
//! entry (R2): before, it would carry the walk's own cursor away. When another reclaimer has moved
//! the cursor's entry, the walk starts its bin anew (R3).
//!
//! After [`MemcgLru::set_in_turn`] a walk begins behind the entry where the last one ended.

use super::{MEMCG_NR_BINS, MemcgId, MemcgLru, MemcgOp};

/// The state of one walk. Dropping it without [`MemcgWalk::finish`] loses the last entry's move.
#[derive(Debug)]
pub struct MemcgWalk {
    slot: usize,
    first_bin: usize,
    /// Number of bins completed.
    done: usize,
    cursor: Option<MemcgId>,
    pending: MemcgOp,
    /// The last entry met in the present bin that did not move; `None` if there is none.
    stayed: Option<MemcgId>,
}

impl MemcgWalk {
    /// Begins a walk over the old generation: at a random bin, or where the last walk ended
    /// ([`MemcgLru::set_in_turn`]).
    #[must_use]
    pub fn new(lru: &mut MemcgLru) -> Self {
        let (first_bin, behind) = lru.first_bin();
        Self {
            slot: lru.old_slot(),
            first_bin,
            done: 0,
            cursor: None,
            pending: MemcgOp::Nop,
            stayed: behind,
        }
    }

    const fn list(&self) -> usize {
        self.slot * MEMCG_NR_BINS + (self.first_bin + self.done) % MEMCG_NR_BINS
    }

    /// Moves the entry that was returned last, as [`Self::pend`] has set, and returns the next
    /// memcg to reclaim from; `None` after eight bins.
    pub fn next(&mut self, lru: &mut MemcgLru) -> Option<MemcgId> {
        while self.done < MEMCG_NR_BINS {
            let list = self.list();
            let next = match self.cursor {
                // Another reclaimer has moved the entry: its links lead to another list.
                Some(at) if lru.links.list_of(at) != Some(list) => lru.links.head(list),
                Some(at) => lru.links.next(at),
                None => match self.stayed {
                    Some(at) if lru.links.list_of(at) == Some(list) => lru.links.next(at),
                    _ => lru.links.head(list),
                },
            };
            self.apply(lru);
            self.cursor = next;
            if next.is_some() {
                return next;
            }
            self.done += 1;
            self.stayed = None;
        }
        None
    }

    /// Sets how the entry that [`Self::next`] returned last is to move.
    pub const fn pend(&mut self, op: MemcgOp) {
        self.pending = op;
    }

    /// Ends the walk at any point, after it has moved the last entry.
    pub fn finish(mut self, lru: &mut MemcgLru) {
        self.apply(lru);
        let stayed = self
            .stayed
            .filter(|at| lru.links.list_of(*at) == Some(self.list()));
        lru.leave_off(self.list() % MEMCG_NR_BINS, stayed);
    }

    fn apply(&mut self, lru: &mut MemcgLru) {
        let op = core::mem::replace(&mut self.pending, MemcgOp::Nop);
        if let Some(id) = self.cursor.take() {
            if op == MemcgOp::Nop {
                self.stayed = Some(id);
            }
            lru.rotate(id, op);
        }
    }
}
