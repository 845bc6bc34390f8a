//! CLOCK with one reference bit (Corbato 1968). The pages are in a ring. The hand clears the bits
//! of the pages that it passes, and evicts the first page with a clear bit. A new page has a clear
//! bit.
//!
//! Invariant: the ring has the pages that are present, each once.

use super::Cache;

const PRESENT: u8 = 1;
const REFERENCED: u8 = 2;

/// A memory under CLOCK. Takes 1 byte for each page of the trace and 4 for each page in memory.
#[derive(Clone, Debug)]
pub struct Clock {
    state: Vec<u8>,
    ring: Vec<u32>,
    hand: usize,
    size: usize,
}

impl Clock {
    /// Makes a memory of `size` pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            state: Vec::new(),
            ring: Vec::new(),
            hand: 0,
            size: usize::try_from(size).unwrap_or(usize::MAX),
        }
    }

    /// Adds the page `id`; if the ring is full, the page replaces an evicted page.
    #[inline]
    fn insert(&mut self, id: u32) {
        if self.ring.len() < self.size {
            self.ring.push(id);
        } else if self.size > 0 {
            self.replace(id);
        } else {
            return;
        }
        self.state[id as usize] = PRESENT;
    }

    fn replace(&mut self, id: u32) {
        loop {
            let at = self.hand;
            self.hand = if at + 1 == self.ring.len() { 0 } else { at + 1 };
            let state = &mut self.state[self.ring[at] as usize];
            if *state & REFERENCED == 0 {
                *state = 0;
                self.ring[at] = id;
                return;
            }
            *state = PRESENT;
        }
    }
}

impl Cache for Clock {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let at = id as usize;
        if at >= self.state.len() {
            self.state.resize((at + 1).next_power_of_two(), 0);
        }
        let state = self.state[at];
        if state == 0 {
            self.insert(id);
            return false;
        }
        if state & REFERENCED == 0 {
            self.state[at] = PRESENT | REFERENCED;
        }
        true
    }

    fn held(&self) -> u64 {
        self.ring.len() as u64
    }
}
