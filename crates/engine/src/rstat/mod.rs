//! rstat: statistics of a tree of groups, with deltas of each worker that a reader flushes (sums
//! up).
//! spec: rstat.md.
//!
//! An update adds to the array of one worker, and marks its group and all groups above as updated
//! on that worker. A flush visits only marked groups, children before parents. Each group adds its
//! changes since the last flush to its own total and to the pending changes of its parent.
//!
//! Invariants (rstat.md 8), asserted after a flush of the root by `check_flushed`:
//! - I1 a group's total is the sum of its local value, its children's totals and the totals of
//!   removed children;
//! - I2 a local value is the sum over the workers;
//! - I3 no group has pending changes or is marked;
//! - I6 a marked group's ancestors are marked on the same worker.

mod changes;
mod threshold;
mod updated;

pub use threshold::{FLUSH_TIME, Flusher};

use alloc::boxed::Box;
use alloc::vec::Vec;
use changes::Changes;
use updated::Updated;

/// Id of a group of statistics, such as a memcg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The root, which is above all other groups.
    pub const ROOT: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
struct Group {
    parent: Option<GroupId>,
    /// Number of levels below the root.
    depth: u32,
    /// Number of child groups that were not removed.
    children: u32,
    /// Running sums of each worker, which are never reset; created at the worker's first update.
    now: Vec<Option<Box<[i64]>>>,
    /// The gains of each worker's sums since the last flush.
    changes: Changes,
    /// Workers on which the running flush has found this group updated.
    found: Vec<u32>,
    total: Box<[i64]>,
    local: Box<[i64]>,
    pending: Box<[i64]>,
    /// Sums of the totals of removed children.
    inherited: Box<[i64]>,
}

/// All groups, with the statistics of each.
#[derive(Debug)]
pub struct Rstat {
    nr_stats: usize,
    workers: usize,
    groups: Vec<Option<Group>>,
    /// Ids of removed groups, which new groups reuse.
    free: Vec<GroupId>,
    updated: Updated,
    thresholds: threshold::Thresholds,
    /// Number of group flushes so far; a group counts once for each worker on which it was marked.
    flushes: u64,
    /// Number of counters that flushes have read so far.
    counters_read: u64,
    scratch: Scratch,
}

/// Buffers that all flushes reuse, to save allocations.
#[derive(Debug)]
struct Scratch {
    /// Groups to flush: depth and index of each.
    found: Vec<(u32, usize)>,
    popped: Vec<usize>,
    /// The values that one group adds to the pending values of its parent.
    own: Box<[i64]>,
}

impl Group {
    fn now_on(&mut self, worker: usize, workers: usize, nr_stats: usize) -> &mut [i64] {
        if self.now.is_empty() {
            self.now.resize(workers, None);
        }
        self.now[worker].get_or_insert_with(|| zeros(nr_stats))
    }

    /// Adds the changes of the workers in `found`, and the pending changes from its children, to
    /// the group's values. Writes the sum of both to `own`, for the parent.
    ///
    /// Both parts are added separately, even if their sum is zero: then the local value changes
    /// nevertheless. (The first version of the kernel's patch skipped the group if the sum was
    /// zero, and lost the local part for ever: rstat.md 4.1.)
    ///
    /// Returns the number of counters read: the workers' and the pending ones.
    fn flush(&mut self, own: &mut [i64]) -> u64 {
        own.fill(0);
        let mut counters_read = 0;
        for worker in self.found.drain(..) {
            counters_read += self.changes.take(worker as usize, own);
        }
        for (stat, own) in own.iter_mut().enumerate() {
            counters_read += 1;
            self.local[stat] += *own;
            *own += core::mem::take(&mut self.pending[stat]);
            self.total[stat] += *own;
        }
        counters_read
    }
}

/// Returns a value as readers see it: a negative value, which can occur between two flushes,
/// becomes zero.
#[must_use]
pub fn shown(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn zeros(n: usize) -> Box<[i64]> {
    alloc::vec![0; n].into_boxed_slice()
}

impl Rstat {
    /// Creates the root group. Each group has `nr_stats` statistics, which `workers` workers
    /// update.
    #[must_use]
    pub fn new(nr_stats: usize, workers: usize) -> Self {
        let mut rstat = Self {
            nr_stats,
            workers,
            groups: Vec::new(),
            free: Vec::new(),
            updated: Updated::new(workers),
            thresholds: threshold::Thresholds::new(workers),
            flushes: 0,
            counters_read: 0,
            scratch: Scratch {
                found: Vec::new(),
                popped: Vec::new(),
                own: zeros(nr_stats),
            },
        };
        rstat.push_group(None);
        rstat
    }

    /// Creates a group below `parent`.
    pub fn create(&mut self, parent: GroupId) -> GroupId {
        assert!(
            self.groups[parent.index()].is_some(),
            "the parent was removed"
        );
        self.push_group(Some(parent))
    }

    fn push_group(&mut self, parent: Option<GroupId>) -> GroupId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.updated.add_group();
            self.thresholds.add_group();
            GroupId(u32::try_from(self.groups.len() - 1).expect("fewer than 2^32 groups"))
        });
        let zeros = || zeros(self.nr_stats);
        let depth = parent.map_or(0, |parent| self.group(parent).depth + 1);
        self.groups[id.index()] = Some(Group {
            parent,
            depth,
            children: 0,
            now: Vec::new(),
            changes: Changes::default(),
            found: Vec::new(),
            total: zeros(),
            local: zeros(),
            pending: zeros(),
            inherited: zeros(),
        });
        if let Some(parent) = parent {
            self.group_mut(parent).children += 1;
        }
        id
    }

    fn group(&self, id: GroupId) -> &Group {
        self.groups[id.index()].as_ref().expect("a removed group")
    }

    fn group_mut(&mut self, id: GroupId) -> &mut Group {
        self.groups[id.index()].as_mut().expect("a removed group")
    }

    fn parent(&self, id: GroupId) -> Option<GroupId> {
        self.group(id).parent
    }

    /// Adds `delta` to statistic `stat` of `id`, on `worker`.
    pub fn update(&mut self, worker: usize, id: GroupId, stat: usize, delta: i64) {
        let (workers, nr_stats) = (self.workers, self.nr_stats);
        let group = self.group_mut(id);
        group.now_on(worker, workers, nr_stats)[stat] += delta;
        group.changes.add((nr_stats, workers), worker, stat, delta);
        self.changed(worker, id, delta.unsigned_abs());
    }

    /// Sets the group's own statistics `first..first + values.len()`, summed over all workers, to
    /// `values`. The differences count as changes by `worker`.
    pub fn bring_to(&mut self, worker: usize, id: GroupId, first: usize, values: &[i64]) {
        let (workers, nr_stats) = (self.workers, self.nr_stats);
        let group = self.group_mut(id);
        let (mut magnitude, places) = (0, first..first + values.len());
        for (stat, &value) in places.zip(values) {
            let sum: i64 = group.now.iter().flatten().map(|now| now[stat]).sum();
            if value != sum {
                group.now_on(worker, workers, nr_stats)[stat] += value - sum;
                let shape = (nr_stats, workers);
                group.changes.add(shape, worker, stat, value - sum);
                magnitude += value.abs_diff(sum);
            }
        }
        if magnitude > 0 {
            self.changed(worker, id, magnitude);
        }
    }

    /// Marks `id` as changed on `worker`. `magnitude` is the sum of the absolute values of the
    /// changes.
    fn changed(&mut self, worker: usize, id: GroupId, magnitude: u64) {
        self.mark(worker, id);
        self.note_magnitude(worker, id, magnitude);
    }

    /// Adds `magnitude` to the counts that decide about a flush, for `id` and the groups above it,
    /// up to the first group that already needs a flush.
    fn note_magnitude(&mut self, worker: usize, id: GroupId, magnitude: u64) {
        let mut at = Some(id);
        while let Some(id) = at.filter(|id| self.thresholds.note(worker, id.index(), magnitude)) {
            at = self.parent(id);
        }
    }

    /// Adds `id` and its ancestors to the updated tree of `worker`, up to the first ancestor that
    /// is already in it.
    fn mark(&mut self, worker: usize, id: GroupId) {
        let mut at = id;
        while !self.updated.is_listed(worker, at.index()) {
            let parent = self.parent(at);
            self.updated
                .list(worker, at.index(), parent.map(GroupId::index));
            let Some(parent) = parent else { break };
            at = parent;
        }
    }

    /// Brings `root` and all groups below it up to date. The changes of `root` become pending in
    /// its parent.
    ///
    /// The flush first finds the changed groups of all workers, and then adds up group by group. So
    /// the values of a group and of its parent are written once, not once for each worker.
    pub fn flush(&mut self, root: GroupId) {
        let parent = self.parent(root).map(GroupId::index);
        for worker in 0..self.workers {
            self.updated
                .pop_subtree(worker, root.index(), parent, &mut self.scratch.popped);
            for index in self.scratch.popped.drain(..) {
                self.flushes += 1;
                let Some(group) = &mut self.groups[index] else {
                    continue;
                };
                if group.found.is_empty() {
                    self.scratch.found.push((group.depth, index));
                }
                group.found.push(u32::try_from(worker).unwrap_or(u32::MAX));
            }
        }
        // Deeper groups first, so that children are flushed before their parents.
        let mut found = core::mem::take(&mut self.scratch.found);
        found.sort_unstable_by(|a, b| b.cmp(a));
        for (_, index) in found.drain(..) {
            self.flush_one(index);
        }
        self.scratch.found = found;
    }

    fn flush_one(&mut self, index: usize) {
        let own = &mut *self.scratch.own;
        let Some(group) = &mut self.groups[index] else {
            return;
        };
        self.thresholds.flushed(index, &group.found);
        self.counters_read += group.flush(own);
        let parent = group.parent;
        if let Some(parent) = parent.and_then(|parent| self.groups[parent.index()].as_mut()) {
            for (pending, own) in parent.pending.iter_mut().zip(own) {
                *pending += *own;
            }
        }
    }

    /// Returns the value of `id` and all groups below it, as of the last flush; zero if negative.
    #[must_use]
    pub fn total(&self, id: GroupId, stat: usize) -> u64 {
        shown(self.totals(id)[stat])
    }

    /// Returns the value of `id` alone, as of the last flush; zero if negative.
    #[must_use]
    pub fn local(&self, id: GroupId, stat: usize) -> u64 {
        shown(self.locals(id)[stat])
    }

    /// Returns all values of `id` and all groups below it, as of the last flush; they may be
    /// negative (see [`shown`]).
    #[must_use]
    pub fn totals(&self, id: GroupId) -> &[i64] {
        &self.group(id).total
    }

    /// Returns all values of `id` alone, as of the last flush; they may be negative (see
    /// [`shown`]).
    #[must_use]
    pub fn locals(&self, id: GroupId) -> &[i64] {
        &self.group(id).local
    }

    /// Returns the value of `id` alone, summed over all workers: exact at any time. The kernel read
    /// local values in this way before it stored them; the function is here for comparison.
    #[must_use]
    pub fn local_by_summing(&self, id: GroupId, stat: usize) -> u64 {
        self.summed(id, stat).0
    }

    /// Returns [`Self::local_by_summing`], and the number of counters read for it.
    #[must_use]
    pub fn summed(&self, id: GroupId, stat: usize) -> (u64, u64) {
        let workers = self.group(id).now.iter().flatten();
        let (sum, counters_read) = workers.fold((0, 0), |(sum, n), now| (sum + now[stat], n + 1));
        (shown(sum), counters_read)
    }

    /// Returns the number of group flushes so far; a group counts once for each worker.
    #[must_use]
    pub const fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Returns the number of counters that flushes have read so far: workers' and pending ones.
    #[must_use]
    pub const fn counters_read(&self) -> u64 {
        self.counters_read
    }

    /// Whether enough has changed in `id` and the groups below it to be worth a flush.
    /// spec: rstat.md 6.1.
    #[must_use]
    pub fn flush_needed(&self, id: GroupId) -> bool {
        self.thresholds.is_due(id.index())
    }

    /// Returns the magnitude of changes counted for `id` since its last flush.
    #[cfg(test)]
    fn stats_updates(&self, id: GroupId) -> u64 {
        self.thresholds.updates(id.index())
    }

    /// Removes a group without children. Its counts stay in its ancestors; its id may be reused.
    ///
    /// # Panics
    /// When the group has children, or is the root.
    pub fn remove(&mut self, id: GroupId) {
        assert_eq!(self.group(id).children, 0, "{id:?} has children");
        self.flush(id);
        let Some(group) = self.groups[id.index()].take() else {
            return;
        };
        self.free.push(id);
        let parent = group.parent.expect("the root stays");
        // The parent needs no new mark: it was marked together with this group on every worker.
        let parent = self.group_mut(parent);
        parent.children -= 1;
        for (sum, total) in parent.inherited.iter_mut().zip(group.total) {
            *sum += total;
        }
    }

    /// Asserts I1 to I3, which hold right after a flush of the root.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_flushed(&self) {
        self.updated.check_empty();
        for stat in 0..self.nr_stats {
            let mut expect: Vec<i64> = Vec::new();
            for group in &self.groups {
                expect.push(
                    group
                        .as_ref()
                        .map_or(0, |g| g.local[stat] + g.inherited[stat]),
                );
            }
            for group in self.groups.iter().flatten() {
                if let Some(parent) = group.parent {
                    expect[parent.index()] += group.total[stat];
                }
            }
            for (index, group) in self.groups.iter().enumerate() {
                let Some(group) = group else { continue };
                assert_eq!(group.total[stat], expect[index], "I1: group {index}");
                assert_eq!(group.pending[stat], 0, "I3: group {index}");
                let sum: i64 = group.now.iter().flatten().map(|now| now[stat]).sum();
                assert_eq!(group.local[stat], sum, "I2: group {index}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
