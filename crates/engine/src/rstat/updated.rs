//! The updated trees: for each worker, the groups that have changed on it.
//! spec: rstat.md 2.
//!
//! A changed group is on its parent's list of updated children. Invariant: the ancestors of a
//! listed group are listed, too, so that a flush of any of them finds the group.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    listed: bool,
    /// First child on this group's list of updated children.
    child: Option<u32>,
    /// Next group on the parent's list.
    next: Option<u32>,
    /// Previous group on the parent's list; `None` for the first. (The kernel has no such link, and
    /// searches the list instead.)
    prev: Option<u32>,
}

/// The updated tree of each worker.
#[derive(Debug)]
pub(super) struct Updated {
    workers: Vec<Vec<Node>>,
    groups: usize,
}

impl Updated {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers: alloc::vec![Vec::new(); workers],
            groups: 0,
        }
    }

    pub(super) const fn add_group(&mut self) {
        self.groups += 1;
    }

    pub(super) fn is_listed(&self, worker: usize, group: usize) -> bool {
        self.workers[worker]
            .get(group)
            .is_some_and(|node| node.listed)
    }

    /// Puts `group` at the head of its parent's list.
    pub(super) fn list(&mut self, worker: usize, group: usize, parent: Option<usize>) {
        let nodes = &mut self.workers[worker];
        if nodes.len() < self.groups {
            nodes.resize(self.groups, Node::default());
        }
        nodes[group].listed = true;
        if let Some(parent) = parent {
            let (this, next) = (u32::try_from(group).ok(), nodes[parent].child);
            nodes[group].next = next;
            if let Some(next) = next {
                nodes[next as usize].prev = this;
            }
            nodes[parent].child = this;
        }
    }

    /// Takes `root` and all listed groups below it off the tree, and stores them in `order`,
    /// children before parents. `order` must be empty.
    pub(super) fn pop_subtree(
        &mut self,
        worker: usize,
        root: usize,
        parent: Option<usize>,
        order: &mut Vec<usize>,
    ) {
        if !self.is_listed(worker, root) {
            return;
        }
        if let Some(parent) = parent {
            self.unlink(worker, root, parent);
        }
        let nodes = &mut self.workers[worker];
        // Collects parents first; the order is reversed at the end.
        order.push(root);
        let mut at = 0;
        while at < order.len() {
            let mut child = nodes[order[at]].child;
            while let Some(group) = child {
                order.push(group as usize);
                child = nodes[group as usize].next;
            }
            at += 1;
        }
        for &group in &*order {
            nodes[group] = Node::default();
        }
        order.reverse();
    }

    /// Takes `group` off its parent's list, in constant time.
    fn unlink(&mut self, worker: usize, group: usize, parent: usize) {
        let nodes = &mut self.workers[worker];
        let Node { next, prev, .. } = nodes[group];
        if let Some(next) = next {
            nodes[next as usize].prev = prev;
        }
        match prev {
            Some(prev) => nodes[prev as usize].next = next,
            None => nodes[parent].child = next,
        }
    }

    /// Asserts that no group is listed anywhere.
    pub(super) fn check_empty(&self) {
        for (worker, nodes) in self.workers.iter().enumerate() {
            let listed = nodes.iter().position(|n| n.listed || n.child.is_some());
            assert_eq!(listed, None, "I3: still listed on worker {worker}");
        }
    }
}
