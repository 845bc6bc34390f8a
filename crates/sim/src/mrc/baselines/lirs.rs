//! LIRS (Jiang and Zhang, SIGMETRICS'02): pages that are referenced again soon have low
//! inter-reference recency and get 99% of the memory; the other pages pass through a queue of 1%.
//!
//! The stack has the pages of low recency, and all pages referenced later than the oldest of these.
//! A page that is referenced while it is in the stack gets low recency, and the oldest page of low
//! recency moves to the queue. The code differs from the paper where libCacheSim does:
//!
//! - If a page of the queue is referenced and is not in the stack, it is added on top of the stack
//!   and stays in the queue. If no more pages may have low recency, the oldest of them moves to the
//!   queue now, not when that page is referenced again. The next new page then gets low recency at
//!   once.
//! - If the queue has space for only one page (below 200 pages), that move removes the referenced
//!   page itself from the queue. The page stays in the stack, so it hits once more: so small a
//!   memory has a few pages more than its size.
//! - The stack has at most twice the size of the memory. If it would have more, the page that was
//!   evicted first is forgotten first.
//!
//! Invariant: from 200 pages on, pages of low recency and the queue never have more pages than the
//! size; the oldest page of the stack has low recency.

use super::rings::Rings;
use super::{part, reach};
use crate::mrc::{Cache, Lru};

const STACK: usize = 0;
const QUEUE: usize = 0;
/// List of the evicted pages that are in the stack, in the order of their eviction.
const GONE: usize = 1;

const IN_STACK: u8 = 1;
/// The page has low recency; it is in the stack, too.
const LOW: u8 = 2;
/// The page is in the stack and in memory. (Below 200 pages this may stay set after the page has
/// left the queue.)
const HELD: u8 = 4;
const IN_QUEUE: u8 = 8;

/// A memory under LIRS. Takes 17 bytes for each page of the trace.
#[derive(Clone, Debug)]
pub struct Lirs {
    state: Vec<u8>,
    stack: Rings<1>,
    /// The queue and the list of evicted pages. A page is in at most one of them, so they share
    /// links.
    beside: Rings<2>,
    low: u64,
    low_max: u64,
    queue_max: u64,
    /// LRU, for memories of fewer than three pages: LIRS needs two pages of low recency.
    tiny: Option<Lru>,
}

impl Lirs {
    /// Makes a memory of `size` pages, which remembers up to the same number of evicted pages.
    /// Below 3 pages it is LRU.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let queue_max = part(size, 0.01).max(1);
        Self {
            state: Vec::new(),
            stack: Rings::new(),
            beside: Rings::new(),
            low: 0,
            low_max: size.saturating_sub(queue_max),
            queue_max,
            tiny: (size < 3).then(|| Lru::new(size)),
        }
    }

    /// Removes pages that do not have low recency from the old end of the stack.
    fn prune(&mut self) {
        while let Some(id) = self.stack.oldest(STACK) {
            let state = self.state[id as usize];
            if state & LOW != 0 || self.stack.newest(STACK) == Some(id) {
                return;
            }
            if state & HELD == 0 {
                self.beside.remove(GONE, id);
            }
            self.stack.remove(STACK, id);
            self.state[id as usize] = state & IN_QUEUE;
        }
    }

    /// Makes space for one more page of low recency: moves the oldest of these pages into the
    /// queue.
    fn sink_for_one(&mut self) {
        if self.low < self.low_max {
            return;
        }
        let Some(id) = self.stack.oldest(STACK) else {
            return;
        };
        self.low -= 1;
        self.stack.remove(STACK, id);
        self.leave_for_one();
        self.beside.push(QUEUE, id);
        self.state[id as usize] = IN_QUEUE;
        self.prune();
    }

    /// Makes space for one more page in the queue: evicts its oldest page.
    fn leave_for_one(&mut self) {
        if self.beside.len(QUEUE) < self.queue_max {
            return;
        }
        let Some(id) = self.beside.oldest(QUEUE) else {
            return;
        };
        self.beside.remove(QUEUE, id);
        let state = &mut self.state[id as usize];
        *state &= !IN_QUEUE;
        if *state & IN_STACK != 0 {
            *state &= !HELD;
            self.beside.push(GONE, id);
        }
    }

    /// Gives low recency to the page on top of the stack.
    fn rise(&mut self, id: u32) {
        self.sink_for_one();
        self.state[id as usize] = IN_STACK | HELD | LOW;
        self.low += 1;
    }

    /// Handles a reference to a page that is now on top of the stack; returns whether the page was
    /// present.
    fn access_in_stack(&mut self, id: u32, state: u8) -> bool {
        if state & LOW != 0 {
            self.prune();
        } else if state & HELD != 0 {
            if state & IN_QUEUE != 0 {
                self.beside.remove(QUEUE, id);
            }
            self.rise(id);
        } else {
            self.rise(id);
            self.beside.remove(GONE, id);
        }
        state & HELD != 0
    }

    /// Handles a reference to a page that is in the queue and not in the stack.
    fn access_in_queue(&mut self, id: u32) {
        self.beside.promote(QUEUE, id);
        self.sink_for_one();
        self.stack.push(STACK, id);
        self.state[id as usize] |= IN_STACK | HELD;
    }

    fn enter(&mut self, id: u32) {
        self.stack.push(STACK, id);
        if self.low < self.low_max {
            self.low += 1;
            self.state[id as usize] = IN_STACK | HELD | LOW;
        } else {
            self.leave_for_one();
            self.beside.push(QUEUE, id);
            self.state[id as usize] = IN_STACK | HELD | IN_QUEUE;
        }
    }

    /// Forgets evicted pages until the stack has at most twice the size of the memory.
    fn limit(&mut self) {
        while self.stack.len(STACK) > 2 * (self.low_max + self.queue_max) {
            let Some(id) = self.beside.oldest(GONE) else {
                return;
            };
            self.beside.remove(GONE, id);
            self.stack.remove(STACK, id);
            self.state[id as usize] = 0;
        }
    }
}

impl Cache for Lirs {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        if let Some(lru) = &mut self.tiny {
            return lru.access(id);
        }
        reach(&mut self.state, id, 0);
        let state = self.state[id as usize];
        let mut hit = true;
        if state & IN_STACK != 0 {
            self.stack.promote(STACK, id);
            hit = self.access_in_stack(id, state);
        } else if state & IN_QUEUE != 0 {
            self.access_in_queue(id);
        } else {
            self.enter(id);
            hit = false;
        }
        self.limit();
        hit
    }

    fn held(&self) -> u64 {
        let lru = self.tiny.as_ref().map_or(0, Cache::held);
        lru + self.low + self.beside.len(QUEUE)
    }
}
