//! One reclaimer's walk over the old generation of the memcg LRU.
//! spec: memcg-lru.md 5.
//!
//! Between two calls of [`MemcgWalk::next`] any number of other walks and moves may happen. An
//! entry's pending move is made only when the walk continues past the entry (R2); earlier, it would
//! move the walk's own cursor to another list. If another reclaimer has moved the entry at the
//! cursor, the walk starts its bin again (R3).
//!
//! After [`MemcgLru::set_in_turn`] a walk begins after the entry where the last walk ended.

use super::{MEMCG_NR_BINS, MemcgId, MemcgLru, MemcgOp};

/// The state of one walk. If it is dropped without [`MemcgWalk::finish`], the last entry's pending
/// move is lost.
#[derive(Debug)]
pub struct MemcgWalk {
    slot: usize,
    first_bin: usize,
    /// Number of bins completed.
    done: usize,
    cursor: Option<MemcgId>,
    pending: MemcgOp,
    /// The last visited entry of the present bin that did not move; `None` if there is none.
    stayed: Option<MemcgId>,
}

impl MemcgWalk {
    /// Begins a walk over the old generation: at a random bin, or where the last walk ended
    /// ([`MemcgLru::set_in_turn`]).
    #[must_use]
    pub fn new(lru: &mut MemcgLru) -> Self {
        let (first_bin, after) = lru.first_bin();
        Self {
            slot: lru.old_slot(),
            first_bin,
            done: 0,
            cursor: None,
            pending: MemcgOp::Nop,
            stayed: after,
        }
    }

    const fn list(&self) -> usize {
        self.slot * MEMCG_NR_BINS + (self.first_bin + self.done) % MEMCG_NR_BINS
    }

    /// Makes the pending move ([`Self::pend`]) of the entry that was returned last. Returns the
    /// next memcg to reclaim from; `None` after eight bins.
    pub fn next(&mut self, lru: &mut MemcgLru) -> Option<MemcgId> {
        while self.done < MEMCG_NR_BINS {
            let list = self.list();
            let next = match self.cursor {
                // Another reclaimer has moved the entry, so its links lead to another list.
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

    /// Sets the pending move of the entry that [`Self::next`] returned last.
    pub const fn pend(&mut self, op: MemcgOp) {
        self.pending = op;
    }

    /// Makes the last pending move and ends the walk, at any point.
    pub fn finish(mut self, lru: &mut MemcgLru) {
        self.apply(lru);
        let stayed = self
            .stayed
            .filter(|at| lru.links.list_of(*at) == Some(self.list()));
        lru.note_walk_end(self.list() % MEMCG_NR_BINS, stayed);
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
