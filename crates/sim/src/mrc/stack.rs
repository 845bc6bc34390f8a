//! Computes LRU stack distances (Mattson 1970), exactly and for all sizes in one pass.
//!
//! Every page has the position of its last reference. The stack distance of a reference is the
//! number of pages whose position is this one or a later one. If all positions are used, the pages
//! are moved to the first positions, in their order. There are four positions for each page, so
//! each reference costs a third of a move on average.
//!
//! Invariant: the members of `ranks` are exactly the positions in `last`, one for each page. A
//! distance is the smallest LRU size at which the reference hits.

use super::ranks::Ranks;

const NEVER: u32 = u32::MAX;
/// Number of entries by which the table of pages grows.
const STEP: usize = 1 << 12;
const FIRST_CAPACITY: usize = 1 << 14;
/// Maximum number of positions: those of 32 bits, except the value that means never.
const CAPACITY_MAX: usize = u32::MAX as usize / 512 * 512;

/// The stack. Takes about 5 bytes for each page.
#[derive(Clone, Debug)]
pub struct Stack {
    last: Vec<u32>,
    ranks: Ranks,
    next: u32,
    live: u32,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            last: Vec::new(),
            ranks: Ranks::new(FIRST_CAPACITY),
            next: 0,
            live: 0,
        }
    }
}

impl Stack {
    /// Returns the number of pages seen.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.live
    }

    /// References a page. Returns its distance, at least 1; `None` for the first reference.
    ///
    /// # Panics
    /// If there are 2^31 pages or more.
    #[inline]
    pub fn access(&mut self, id: u32) -> Option<u32> {
        let index = id as usize;
        if index >= self.last.len() {
            // The table grows by a fixed number of entries, because a table that doubles would need
            // up to twice the memory.
            self.last.resize((index + 1).next_multiple_of(STEP), NEVER);
        }
        let last = self.last[index];
        if last == self.next.wrapping_sub(1) && last != NEVER {
            return Some(1);
        }
        if self.next as usize == self.ranks.capacity() {
            self.compact();
        }
        let last = self.last[index];
        let distance = if last == NEVER {
            self.live += 1;
            None
        } else {
            let distance = self.ranks.after(last as usize) + 1;
            self.ranks.remove(last as usize);
            Some(distance)
        };
        self.ranks.insert(self.next as usize);
        self.last[index] = self.next;
        self.next += 1;
        distance
    }

    #[cold]
    fn compact(&mut self) {
        let prefixes = self.ranks.prefixes();
        for last in self.last.iter_mut().filter(|last| **last != NEVER) {
            let at = *last as usize;
            *last = prefixes[at >> 6] + self.ranks.before_in_word(at);
        }
        let capacity = (self.live as usize * 4).clamp(FIRST_CAPACITY, CAPACITY_MAX);
        assert!(capacity > self.live as usize, "too many pages");
        self.ranks = Ranks::new(capacity.max(self.ranks.capacity()));
        (0..self.live as usize).for_each(|at| self.ranks.insert(at));
        self.next = self.live;
    }
}
