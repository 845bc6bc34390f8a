//! SIEVE (Zhang and others, NSDI'24): pages in the order of their arrival; a hand goes from the old
//! end to the new one, spares those that were referenced since it passed, and takes the first that was
//! not. What is spared stays where it is.
//!
//! Invariant: the ring holds the pages that are present, each once, and never more than the size; the
//! hand is none, or in the ring.

use super::reach;
use super::rings::Rings;
use crate::mrc::Cache;

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const REFERENCED: u8 = 2;

/// A SIEVE memory. 9 bytes a page of the trace.
#[derive(Clone, Debug)]
pub struct Sieve {
    state: Vec<u8>,
    ring: Rings<1>,
    /// Where the next search begins; `None`: at the oldest page.
    hand: Option<u32>,
    size: u64,
}

impl Sieve {
    /// Holds up to `size` pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            state: Vec::new(),
            ring: Rings::new(),
            hand: None,
            size,
        }
    }

    /// One page leaves. The search ends: each page that it spares has lost its mark when the hand comes
    /// round again.
    fn evict(&mut self) {
        let mut at = self.hand.or_else(|| self.ring.oldest(0));
        while let Some(id) = at {
            let next = self.ring.newer(id);
            let state = &mut self.state[id as usize];
            if *state != REFERENCED {
                *state = ABSENT;
                // Beyond the newest page there is none: whoever comes next must not be met first.
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
            // A hit moves nothing; one byte is all that it writes.
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
