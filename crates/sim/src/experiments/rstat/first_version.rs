//! The patch as it was first posted (July 2023), for a single statistic, to compare it with the
//! engine. Its mistake: rstat.md 4.1.
//! spec: rstat.md 3, 4, 4.1.
//!
//! Invariant: an update changes only a worker's running sum; only a flush propagates the changes.

/// The groups of the first version; number 0 is the root.
pub(super) struct FirstVersion {
    groups: Vec<Group>,
    workers: usize,
    /// Whether the fix of the second version is applied: a worker's change is added even if it and
    /// the children's changes sum to zero.
    mended: bool,
}

struct Group {
    parent: Option<usize>,
    /// For each worker: its running sum, and (`prev`) what the sum was at the last flush.
    state: Vec<i64>,
    prev: Vec<i64>,
    local: i64,
    total: i64,
    /// Changes that children have passed to this group and that the group has not added yet.
    pending: i64,
}

impl FirstVersion {
    /// Makes a root group that `workers` workers update.
    pub(super) fn new(workers: usize, mended: bool) -> Self {
        let mut new = Self {
            groups: Vec::new(),
            workers,
            mended,
        };
        new.push(None);
        new
    }

    /// Makes a group and returns its number.
    pub(super) fn create(&mut self, parent: usize) -> usize {
        self.push(Some(parent))
    }

    fn push(&mut self, parent: Option<usize>) -> usize {
        self.groups.push(Group {
            parent,
            state: vec![0; self.workers],
            prev: vec![0; self.workers],
            local: 0,
            total: 0,
            pending: 0,
        });
        self.groups.len() - 1
    }

    pub(super) fn update(&mut self, worker: usize, group: usize, delta: i64) {
        self.groups[group].state[worker] += delta;
    }

    /// Flushes all groups, worker by worker. Children are flushed before their parents, because
    /// children have higher numbers.
    pub(super) fn flush(&mut self) {
        for worker in 0..self.workers {
            for group in (0..self.groups.len()).rev() {
                let left = self.groups[group].flush(worker, self.mended);
                if let Some(parent) = self.groups[group].parent {
                    self.groups[parent].pending += left;
                }
            }
        }
    }

    /// Returns a group's own value as of the last flush, and the sum of its workers' counters. The
    /// two must be equal after a flush.
    pub(super) fn local(&self, group: usize) -> (i64, i64) {
        let group = &self.groups[group];
        (group.local, group.state.iter().sum())
    }

    /// Returns the value of a group and all groups below it, as of the last flush.
    pub(super) fn total(&self, group: usize) -> i64 {
        self.groups[group].total
    }
}

impl Group {
    /// Flushes one group on one worker; returns the change that is passed to the parent.
    fn flush(&mut self, worker: usize, mended: bool) -> i64 {
        let own = self.state[worker] - self.prev[worker];
        self.prev[worker] = self.state[worker];
        let delta = std::mem::take(&mut self.pending) + own;
        // This is the bug: if `delta` is 0, `own` is lost, because `prev` was updated already.
        if delta == 0 && !mended {
            return 0;
        }
        self.local += own;
        self.total += delta;
        delta
    }
}
