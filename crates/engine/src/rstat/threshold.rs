//! When a flush is worth its cost. spec: rstat.md 6.1.
//!
//! Changes are counted, by magnitude, for the group and all above it; a reader flushes only when
//! more than 64 a worker have come together. So it is wrong by at most 64 changes a worker, and
//! what the workers have not handed on yet, until the periodic flush.

use super::{GroupId, Rstat};
use crate::memcg::MEMCG_CHARGE_BATCH;
use crate::units::Millis;
use alloc::vec::Vec;

/// Between two periodic flushes of everything.
pub const FLUSH_TIME: Millis = Millis(2000);

#[derive(Debug)]
pub(super) struct Thresholds {
    workers: usize,
    /// By group.
    updates: Vec<u64>,
    /// By group and worker: not handed on yet.
    shards: Vec<u64>,
}

impl Thresholds {
    pub(super) const fn new(workers: usize) -> Self {
        Self {
            workers,
            updates: Vec::new(),
            shards: Vec::new(),
        }
    }

    pub(super) fn add_group(&mut self) {
        self.updates.push(0);
        self.shards.resize(self.shards.len() + self.workers, 0);
    }

    /// Notes a change; false when `group` is due already, as then all above it are.
    pub(super) fn note(&mut self, worker: usize, group: usize, magnitude: u64) -> bool {
        if self.is_due(group) {
            return false;
        }
        let shard = &mut self.shards[group * self.workers + worker];
        *shard += magnitude;
        if *shard >= MEMCG_CHARGE_BATCH {
            self.updates[group] += core::mem::take(shard);
        }
        true
    }

    pub(super) fn is_due(&self, group: usize) -> bool {
        self.updates[group] > MEMCG_CHARGE_BATCH * self.workers as u64
    }

    #[cfg(test)]
    pub(super) fn updates(&self, group: usize) -> u64 {
        self.updates[group]
    }

    /// `group` was flushed on these workers.
    pub(super) fn flushed(&mut self, group: usize, on: &[u32]) {
        let shards = &mut self.shards[group * self.workers..][..self.workers];
        on.iter().for_each(|&worker| shards[worker as usize] = 0);
        self.updates[group] = 0;
    }
}

/// Who flushes when: the periodic worker, readers, and internal callers that are rate limited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flusher {
    last_periodic: Millis,
}

impl Flusher {
    /// When the periodic flush is due next.
    #[must_use]
    pub const fn next_periodic(&self) -> Millis {
        self.last_periodic.after(FLUSH_TIME)
    }

    /// The periodic flush, if it is due: everything, whatever the thresholds say.
    pub fn periodic(&mut self, rstat: &mut Rstat, now: Millis) -> bool {
        if now < self.next_periodic() {
            return false;
        }
        rstat.flush(GroupId::ROOT);
        self.last_periodic = now;
        true
    }

    /// Before a user reads `id`.
    pub fn before_read(&self, rstat: &mut Rstat, id: GroupId) -> bool {
        let due = rstat.flush_needed(id);
        if due {
            rstat.flush(id);
        }
        due
    }

    /// Before an internal caller reads `id`: only when the periodic worker is late.
    pub fn before_limited_read(&self, rstat: &mut Rstat, id: GroupId, now: Millis) -> bool {
        let late = now.since(self.last_periodic) > Millis(2 * FLUSH_TIME.0);
        late && self.before_read(rstat, id)
    }
}
