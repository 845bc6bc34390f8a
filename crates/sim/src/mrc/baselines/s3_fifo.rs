//! S3-FIFO (Yang and others, SOSP'23): new pages enter a small queue, which has a tenth of the
//! memory. Pages referenced twice there move to the main queue; the others are evicted and
//! remembered. The main queue is a CLOCK that counts up to three references.
//!
//! As in libCacheSim: nine tenths as many pages as the size are remembered; a remembered page that
//! returns enters the main queue; and until the first eviction, pages that do not fit into the
//! small queue enter the main queue.
//!
//! Invariant: the small and the main queue together never have more pages than the size.

use super::rings::Rings;
use super::{part, reach};
use crate::mrc::Cache;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Bits of a page's state that count references, 0 to 3. The bits above say in which queue the page
/// is.
const REFERENCES: u8 = 3;
const ABSENT: u8 = 0;
const REMEMBERED: u8 = 4;
const IN_SMALL: u8 = 8;
const IN_MAIN: u8 = 12;
/// Number of references in the small queue that move a page to the main one.
const ENOUGH: u8 = 2;

/// A memory under S3-FIFO. Takes 9 bytes for each page of the trace.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    state: Vec<u8>,
    queues: Rings<3>,
    size: u64,
    small: u64,
    ghosts: u64,
    /// Whether no page was evicted yet.
    filling: bool,
}

impl S3Fifo {
    /// Makes a memory of `size` pages, which remembers nine tenths as many evicted pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            state: Vec::new(),
            queues: Rings::new(),
            size,
            small: part(size, 0.1).max(1),
            ghosts: part(size, 0.9),
            filling: true,
        }
    }

    /// Evicts a page, or moves pages from the small queue to the main queue. To be called until
    /// there is space.
    fn evict(&mut self) {
        self.filling = false;
        let main = self.size.saturating_sub(self.small);
        if self.queues.len(MAIN) > main || self.queues.len(SMALL) == 0 {
            self.evict_main();
        } else {
            self.evict_small();
        }
    }

    /// Evicts one page of the small queue; if all were referenced, moves all to the main queue.
    fn evict_small(&mut self) {
        while let Some(id) = self.queues.oldest(SMALL) {
            if self.state[id as usize] & REFERENCES < ENOUGH {
                self.queues.remove(SMALL, id);
                self.remember(id);
                return;
            }
            self.queues.transfer(SMALL, MAIN, id);
            // In the main queue, references count from zero.
            self.state[id as usize] = IN_MAIN;
        }
    }

    /// Remembers a page evicted from the small queue, and forgets the page remembered the longest
    /// if there are too many.
    fn remember(&mut self, id: u32) {
        self.state[id as usize] = ABSENT;
        if self.ghosts == 0 {
            return;
        }
        if self.queues.len(GHOST) == self.ghosts
            && let Some(oldest) = self.queues.oldest(GHOST)
        {
            self.queues.remove(GHOST, oldest);
            self.state[oldest as usize] = ABSENT;
        }
        self.queues.push(GHOST, id);
        self.state[id as usize] = REMEMBERED;
    }

    /// Evicts one page of the main queue. Pages before it move to the young end with one reference
    /// less.
    fn evict_main(&mut self) {
        while let Some(id) = self.queues.oldest(MAIN) {
            let state = &mut self.state[id as usize];
            if *state == IN_MAIN {
                *state = ABSENT;
                self.queues.remove(MAIN, id);
                return;
            }
            *state -= 1;
            self.queues.promote(MAIN, id);
        }
    }
}

impl Cache for S3Fifo {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        reach(&mut self.state, id, ABSENT);
        let state = self.state[id as usize];
        if state >= IN_SMALL {
            if state & REFERENCES < REFERENCES {
                self.state[id as usize] = state + 1;
            }
            return true;
        }
        if self.size == 0 {
            return false;
        }
        // The page is removed from the remembered ones before another page is evicted. Otherwise
        // that eviction could make the memory forget a further page.
        if state == REMEMBERED {
            self.queues.remove(GHOST, id);
        }
        while self.held() >= self.size {
            self.evict();
        }
        let to_main = state == REMEMBERED || (self.filling && self.queues.len(SMALL) >= self.small);
        let (queue, state) = if to_main {
            (MAIN, IN_MAIN)
        } else {
            (SMALL, IN_SMALL)
        };
        self.queues.push(queue, id);
        self.state[id as usize] = state;
        false
    }

    fn held(&self) -> u64 {
        self.queues.len(SMALL) + self.queues.len(MAIN)
    }
}
