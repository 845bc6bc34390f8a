//! One reclaimer's walk over the old generation. spec: memcg-lru.md 5.
//!
//! The walk holds nothing between two steps, and any number of walks and moves may interleave. What
//! is to be done to an entry is done only when the walk moves past it (R2): doing it at once would
//! carry the walk's own cursor away. When somebody else has moved the cursor's entry, the walk
//! starts its bin anew (R3).
//!
//! In turn ([`MemcgLru::set_in_turn`]) a walk begins behind the entry where the last one ended.

use super::{MEMCG_NR_BINS, MemcgId, MemcgLru, MemcgOp};

/// A cursor. Dropped without [`MemcgWalk::finish`], it leaves its last entry as it was.
#[derive(Debug)]
pub struct MemcgWalk {
    slot: usize,
    first_bin: usize,
    /// Bins completed.
    done: usize,
    cursor: Option<MemcgId>,
    pending: MemcgOp,
    /// The last entry of this bin that stayed where it was.
    stayed: Option<MemcgId>,
}

impl MemcgWalk {
    /// Starts at a random bin of the old generation, or in turn.
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

    /// The next memcg to reclaim; `None` after eight bins. The one before gets its pending op.
    pub fn next(&mut self, lru: &mut MemcgLru) -> Option<MemcgId> {
        while self.done < MEMCG_NR_BINS {
            let list = self.list();
            let next = match self.cursor {
                // Moved by somebody else: its links lead elsewhere.
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

    /// What is to become of the memcg that [`Self::next`] returned last.
    pub const fn pend(&mut self, op: MemcgOp) {
        self.pending = op;
    }

    /// Ends the walk wherever it is.
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
