//! Thresholds: decide when a flush of the statistics is worth its cost.
//! spec: rstat.md 6.1.
//!
//! Each group counts the absolute values of changes in it and the groups below. A reader flushes
//! only if the count exceeds `64 * workers`. Until the periodic flush, a value may therefore be
//! wrong by that much. It may be wrong by up to 63 more for each worker that has not yet added its
//! part to the count.

use super::{GroupId, Rstat};
use crate::memcg::MEMCG_CHARGE_BATCH;
use crate::units::Millis;
use alloc::vec::Vec;

/// Time between two periodic flushes of all groups.
pub const FLUSH_TIME: Millis = Millis(2000);

#[derive(Debug)]
pub(super) struct Thresholds {
    workers: usize,
    /// Magnitude of changes counted since the last flush, by group.
    updates: Vec<u64>,
    /// Magnitude of changes by group and worker that is not yet in `updates`.
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

    /// Counts a change. Returns false if `group` already needs a flush: then all groups above it
    /// do, too.
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

    /// Notes that `group` was flushed on these workers.
    pub(super) fn flushed(&mut self, group: usize, on: &[u32]) {
        let shards = &mut self.shards[group * self.workers..][..self.workers];
        on.iter().for_each(|&worker| shards[worker as usize] = 0);
        self.updates[group] = 0;
    }
}

/// Decides when to flush: periodically, before a user's read, and before a rate-limited read by
/// reclaim.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flusher {
    last_periodic: Millis,
}

impl Flusher {
    /// Returns when the next periodic flush must happen.
    #[must_use]
    pub const fn next_periodic(&self) -> Millis {
        self.last_periodic.after(FLUSH_TIME)
    }

    /// Flushes all groups, however little has changed, if [`Self::next_periodic`] has passed.
    /// Returns whether it flushed.
    pub fn periodic(&mut self, rstat: &mut Rstat, now: Millis) -> bool {
        if now < self.next_periodic() {
            return false;
        }
        rstat.flush(GroupId::ROOT);
        self.last_periodic = now;
        true
    }

    /// Flushes `id` before a user reads it, if enough has changed. Returns whether it flushed.
    pub fn before_read(&self, rstat: &mut Rstat, id: GroupId) -> bool {
        let needed = rstat.flush_needed(id);
        if needed {
            rstat.flush(id);
        }
        needed
    }

    /// Flushes `id` before reclaim reads it, but only if the periodic flush is late and enough has
    /// changed. Returns whether it flushed.
    pub fn before_limited_read(&self, rstat: &mut Rstat, id: GroupId, now: Millis) -> bool {
        let late = now.since(self.last_periodic) > Millis(2 * FLUSH_TIME.0);
        late && self.before_read(rstat, id)
    }
}
