//! The patch as it was first posted (July 2023), for one statistic: what there is to hold against the
//! engine. spec: rstat.md 3 and 4, its mistake: 4.1.
//!
//! Invariant: an update changes a worker's running sum alone; only a flush moves what was there before.

/// Its groups; number 0 is the root.
pub(super) struct FirstVersion {
    groups: Vec<Group>,
    workers: usize,
    /// As in the second version, a worker's change and what children left are asked about apart.
    mended: bool,
}

struct Group {
    parent: Option<usize>,
    /// By worker: a running sum, and what it was at the last flush.
    state: Vec<i64>,
    prev: Vec<i64>,
    local: i64,
    total: i64,
    /// What children have left here.
    pending: i64,
}

impl FirstVersion {
    /// A root, updated by `workers`.
    pub(super) fn new(workers: usize, mended: bool) -> Self {
        let mut new = Self {
            groups: Vec::new(),
            workers,
            mended,
        };
        new.push(None);
        new
    }

    /// Makes a group; its number.
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

    /// Everything, worker by worker; children before parents, as a parent is made before its children.
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

    /// A group's own value as of the last flush, and the sum of its workers, which it should be.
    pub(super) fn local(&self, group: usize) -> (i64, i64) {
        let group = &self.groups[group];
        (group.local, group.state.iter().sum())
    }

    /// A group's value with all below it, as of the last flush.
    pub(super) fn total(&self, group: usize) -> i64 {
        self.groups[group].total
    }
}

impl Group {
    /// One group on one worker; what is left for the parent.
    fn flush(&mut self, worker: usize, mended: bool) -> i64 {
        let own = self.state[worker] - self.prev[worker];
        self.prev[worker] = self.state[worker];
        let delta = std::mem::take(&mut self.pending) + own;
        // The mistake: `own` may be lost here, as `prev` has moved on.
        if delta == 0 && !mended {
            return 0;
        }
        self.local += own;
        self.total += delta;
        delta
    }
}
