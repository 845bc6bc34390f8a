//! SIEVE (Zhang and others, NSDI'24): pages are in the order of their arrival. A hand moves from
//! the oldest page to the newest, skips pages that were referenced since it last passed them, and
//! evicts the first page that was not. A skipped page keeps its position.
//!
//! Invariant: the ring has the pages that are present, each once, and never more than the size; the
//! hand is `None` or a page in the ring.

use super::reach;
use super::rings::Rings;
use crate::mrc::Cache;

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const REFERENCED: u8 = 2;

/// A memory under SIEVE. Takes 9 bytes for each page of the trace.
#[derive(Clone, Debug)]
pub struct Sieve {
    state: Vec<u8>,
    ring: Rings<1>,
    /// The page where the next search begins; `None` for the oldest page.
    hand: Option<u32>,
    size: u64,
}

impl Sieve {
    /// Makes a memory of `size` pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            state: Vec::new(),
            ring: Rings::new(),
            hand: None,
            size,
        }
    }

    /// Evicts one page. The search always ends, because the hand clears the reference bit of each
    /// page that it skips.
    fn evict(&mut self) {
        let mut at = self.hand.or_else(|| self.ring.oldest(0));
        while let Some(id) = at {
            let next = self.ring.newer(id);
            let state = &mut self.state[id as usize];
            if *state != REFERENCED {
                *state = ABSENT;
                // After the newest page the hand becomes `None`, so that the next search begins at
                // the oldest page, not at a page that arrives meanwhile.
                self.hand = next;
                self.ring.remove(0, id);
                return;
            }
            *state = PRESENT;
            at = next.or_else(|| self.ring.oldest(0));
        }
    }
}

impl Cache for Sieve {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        reach(&mut self.state, id, ABSENT);
        match self.state[id as usize] {
            ABSENT => {}
            // A hit moves no page; it writes only one byte.
            PRESENT => {
                self.state[id as usize] = REFERENCED;
                return true;
            }
            _ => return true,
        }
        if self.size == 0 {
            return false;
        }
        if self.held() == self.size {
            self.evict();
        }
        self.ring.push(0, id);
        self.state[id as usize] = PRESENT;
        false
    }

    fn held(&self) -> u64 {
        self.ring.len(0)
    }
}
