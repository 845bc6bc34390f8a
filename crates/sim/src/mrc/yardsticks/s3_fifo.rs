//! S3-FIFO (Yang and others, SOSP'23): new pages pass through a small queue of a tenth; what was
//! referenced twice there goes on to the main queue, the rest leaves and is remembered. The main queue
//! is a CLOCK that counts to three.
//!
//! As in libCacheSim: nine tenths of the size are remembered; what was remembered enters the main queue;
//! and before anything has ever left, pages that do not fit into the small queue fill the main one.
//!
//! Invariant: the small and the main queue together never hold more than the size.

use super::rings::Rings;
use super::{part, reach};
use crate::mrc::Cache;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// A page's state is its place and, below that, its references: 0 to 3.
const REFERENCES: u8 = 3;
const ABSENT: u8 = 0;
const REMEMBERED: u8 = 4;
const IN_SMALL: u8 = 8;
const IN_MAIN: u8 = 12;
/// References in the small queue that take a page into the main one.
const ENOUGH: u8 = 2;

/// An S3-FIFO memory. 9 bytes a page of the trace.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    state: Vec<u8>,
    queues: Rings<3>,
    size: u64,
    small: u64,
    ghosts: u64,
    /// Nothing has ever had to leave.
    filling: bool,
}

impl S3Fifo {
    /// Holds up to `size` pages, and remembers nine tenths of that.
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

    /// Makes room, or moves pages to the main queue: called until there is room.
    fn evict(&mut self) {
        self.filling = false;
        let main = self.size.saturating_sub(self.small);
        if self.queues.len(MAIN) > main || self.queues.len(SMALL) == 0 {
            self.evict_main();
        } else {
            self.evict_small();
        }
    }

    /// One page leaves the small queue for good, or all of them move on.
    fn evict_small(&mut self) {
        while let Some(id) = self.queues.oldest(SMALL) {
            if self.state[id as usize] & REFERENCES < ENOUGH {
                self.queues.remove(SMALL, id);
                self.remember(id);
                return;
            }
            self.queues.transfer(SMALL, MAIN, id);
            // It has to be referenced again to stay there.
            self.state[id as usize] = IN_MAIN;
        }
    }

    /// A page has left the small queue; the longest remembered one is forgotten for it.
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

    /// One page leaves the main queue; those before it go round once more, a reference less.
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
        // Forgotten before room is made, so that this room does not push another ghost out.
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
