//! The updated trees: which groups have changed on which worker. spec: rstat.md 2.
//!
//! A group that is listed hangs on its parent's list of updated children. Invariant: a listed
//! group's ancestors are listed too, so that a flush from any of them finds it.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    listed: bool,
    /// First updated child.
    child: Option<u32>,
    /// Next updated sibling.
    next: Option<u32>,
    /// The sibling before; none of the first. The kernel has none of these, and looks for it.
    prev: Option<u32>,
}

/// One tree for each worker.
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

    /// Puts `group` at the head of `parent`'s list.
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

    /// Takes `root` and all listed below it off the tree into `order`, which was empty; children come before their parents.
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
        // Parents first, then turned around.
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

    /// Takes `group` off its parent's list, in one step wherever it is there.
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
