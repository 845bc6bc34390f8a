//! Doubly linked lists of pages, from the newest to the oldest, in one table with a node for each
//! page.
//!
//! Invariant: a page is in at most one ring. The ring through node `r` has the pages of list `r`,
//! each once, and `len` is their number.

/// The neighbours of a page in its ring.
#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
}

/// A node that is in no ring.
const OUT: Node = Node {
    newer: u32::MAX,
    older: u32::MAX,
};

/// `N` lists. They take 8 bytes for each page of the trace.
#[derive(Clone, Debug)]
pub(super) struct Rings<const N: usize> {
    /// The nodes. Each of the first `N` closes a ring: its `older` is the newest page of that ring.
    /// The node of a page is `id + N`.
    nodes: Vec<Node>,
    len: [u64; N],
}

impl<const N: usize> Rings<N> {
    /// Makes empty lists.
    pub(super) fn new() -> Self {
        let closed = (0..N).map(|ring| Node {
            newer: Self::closing(ring),
            older: Self::closing(ring),
        });
        Self {
            nodes: closed.collect(),
            len: [0; N],
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a handful of rings")]
    const fn closing(ring: usize) -> u32 {
        ring as u32
    }

    const fn node(id: u32) -> u32 {
        id + Self::closing(N)
    }

    /// Returns the page of a node; `None` for a node that closes a ring.
    #[inline]
    const fn page(node: u32) -> Option<u32> {
        node.checked_sub(Self::closing(N))
    }

    /// Returns the number of pages in a ring.
    #[inline]
    pub(super) const fn len(&self, ring: usize) -> u64 {
        self.len[ring]
    }

    /// Returns the oldest page of a ring.
    #[inline]
    pub(super) fn oldest(&self, ring: usize) -> Option<u32> {
        Self::page(self.nodes[ring].newer)
    }

    /// Returns the newest page of a ring.
    #[inline]
    pub(super) fn newest(&self, ring: usize) -> Option<u32> {
        Self::page(self.nodes[ring].older)
    }

    /// Returns the next newer page of the same ring.
    #[inline]
    pub(super) fn newer(&self, id: u32) -> Option<u32> {
        Self::page(self.nodes[Self::node(id) as usize].newer)
    }

    /// Adds a page that is in no ring at the new end of `ring`.
    #[inline]
    pub(super) fn push(&mut self, ring: usize, id: u32) {
        super::reach(&mut self.nodes, Self::node(id), OUT);
        self.len[ring] += 1;
        self.link(ring, Self::node(id));
    }

    #[inline]
    fn link(&mut self, ring: usize, node: u32) {
        let older = self.nodes[ring].older;
        let newer = Self::closing(ring);
        self.nodes[node as usize] = Node { newer, older };
        self.nodes[older as usize].newer = node;
        self.nodes[ring].older = node;
    }

    #[inline]
    fn unlink(&mut self, node: u32) {
        let Node { newer, older } = self.nodes[node as usize];
        self.nodes[newer as usize].older = older;
        self.nodes[older as usize].newer = newer;
    }

    /// Removes a page from its ring.
    #[inline]
    pub(super) fn remove(&mut self, ring: usize, id: u32) {
        self.len[ring] -= 1;
        self.unlink(Self::node(id));
    }

    /// Moves a page to the new end of its ring.
    #[inline]
    pub(super) fn promote(&mut self, ring: usize, id: u32) {
        let node = Self::node(id);
        if self.nodes[ring].older != node {
            self.unlink(node);
            self.link(ring, node);
        }
    }

    /// Moves a page to the new end of another ring.
    #[inline]
    pub(super) fn transfer(&mut self, from: usize, to: usize, id: u32) {
        self.remove(from, id);
        self.len[to] += 1;
        self.link(to, Self::node(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn rings_equal_queues() {
        let (mut rings, mut queues) = (Rings::<2>::new(), [VecDeque::new(), VecDeque::new()]);
        let mut x = 1u32;
        for _ in 0..20_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (id, to, what) = (x >> 27, (x >> 20 & 1) as usize, x >> 10 & 3);
            let home = queues.iter().position(|queue| queue.contains(&id));
            match home {
                None => rings.push(to, id),
                Some(ring) if what == 0 => rings.remove(ring, id),
                Some(ring) if ring == to => rings.promote(ring, id),
                Some(ring) => rings.transfer(ring, to, id),
            }
            queues
                .iter_mut()
                .for_each(|queue| queue.retain(|&i| i != id));
            if home.is_none() || what != 0 {
                queues[to].push_front(id);
            }
            for (ring, queue) in queues.iter().enumerate() {
                assert_eq!(rings.len(ring), queue.len() as u64);
                assert_eq!(rings.oldest(ring), queue.back().copied());
                assert_eq!(rings.newest(ring), queue.front().copied());
                let pairs = queue.iter().zip(queue.iter().skip(1));
                pairs.for_each(|(&new, &old)| assert_eq!(rings.newer(old), Some(new)));
            }
        }
    }
}
