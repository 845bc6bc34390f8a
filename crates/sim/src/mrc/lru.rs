//! LRU with a memory of one size, as a linked list. This simple implementation serves to check the
//! curve for all sizes ([`super::Stack`]).
//!
//! Invariant: the ring through node 0 has the pages that are present, each once, the latest first.
//! It never has more pages than the size.

use super::Cache;

/// A node that is not in the ring.
const ABSENT: Node = Node {
    newer: u32::MAX,
    older: u32::MAX,
};

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
}

/// A memory under LRU. Takes 8 bytes for each page of the trace.
#[derive(Clone, Debug)]
pub struct Lru {
    /// The nodes. The node of a page is `id + 1`; node 0 closes the ring: its `older` is the latest
    /// page.
    nodes: Vec<Node>,
    size: u64,
    held: u64,
}

impl Lru {
    /// Makes a memory of `size` pages.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            nodes: vec![Node { newer: 0, older: 0 }],
            size,
            held: 0,
        }
    }

    #[inline]
    fn unlink(&mut self, at: u32) {
        let Node { newer, older } = self.nodes[at as usize];
        self.nodes[newer as usize].older = older;
        self.nodes[older as usize].newer = newer;
    }

    #[inline]
    fn push(&mut self, at: u32) {
        let latest = self.nodes[0].older;
        self.nodes[at as usize] = Node {
            newer: 0,
            older: latest,
        };
        self.nodes[latest as usize].newer = at;
        self.nodes[0].older = at;
    }
}

impl Cache for Lru {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let at = id + 1;
        if at as usize >= self.nodes.len() {
            let len = (at as usize + 1).next_power_of_two();
            self.nodes.resize(len, ABSENT);
        }
        let present = self.nodes[at as usize].newer != u32::MAX;
        if present {
            if self.nodes[0].older != at {
                self.unlink(at);
                self.push(at);
            }
            return true;
        }
        if self.size == 0 {
            return false;
        }
        if self.held == self.size {
            let oldest = self.nodes[0].newer;
            self.unlink(oldest);
            self.nodes[oldest as usize] = ABSENT;
        } else {
            self.held += 1;
        }
        self.push(at);
        false
    }

    fn held(&self) -> u64 {
        self.held
    }
}
