//! Statistics of all memcgs, counted as the kernel counts them: what a worker changes waits until somebody reads. spec: rstat.md.
//!
//! A lruvec's own counters are what the kernel has by processor: running, never reset, and nobody else's while one works on
//! it. What they gained since they were handed over is the worker's delta; so a touch or a fault costs nothing here.
//!
//! Invariants: a memcg whose lruvec's counters differ from what was handed over is in `changed`, with the worker who changed them;
//! after a flush of the root, a memcg's totals are its own counters, its children's totals, and what removed children left.

use super::Machine;
use crate::folio::FolioType;
use crate::memcg::{MemcgEvents, MemcgId};
use crate::memory_stat::{
    FIRST_EVENT, LruSize, MemoryStat, NR_COUNTED, memcg_events, of_lruvec, of_tenant,
};
use crate::rstat::{Flusher, GroupId, Rstat};
use crate::units::{Millis, Pages};
use alloc::vec::Vec;

/// One memcg's.
#[derive(Clone, Copy, Debug)]
struct Handed {
    group: GroupId,
    /// Who has changed its lruvec since it was handed over.
    by: Option<u32>,
    /// It is in `changed`, perhaps since before it was handed over.
    is_listed: bool,
}

/// The rstat groups, one a memcg.
#[derive(Debug)]
pub(super) struct Stats {
    rstat: Rstat,
    handed: Vec<Handed>,
    changed: Vec<MemcgId>,
    flusher: Flusher,
}

impl Handed {
    const fn new(group: GroupId) -> Self {
        Self {
            group,
            by: None,
            is_listed: false,
        }
    }
}

impl Stats {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            rstat: Rstat::new(NR_COUNTED, workers),
            handed: alloc::vec![Handed::new(GroupId::ROOT)],
            changed: Vec::new(),
            flusher: Flusher::default(),
        }
    }

    pub(super) fn create(&mut self, parent: MemcgId, id: MemcgId) {
        let group = self.rstat.create(self.group(parent));
        if self.handed.len() <= id.index() {
            self.handed
                .resize(id.index() + 1, Handed::new(GroupId::ROOT));
        }
        let is_listed = self.handed[id.index()].is_listed;
        self.handed[id.index()] = Handed {
            is_listed,
            ..Handed::new(group)
        };
    }

    fn group(&self, id: MemcgId) -> GroupId {
        self.handed[id.index()].group
    }

    /// `worker` is known to change the counters of `id`.
    #[inline]
    pub(super) fn is_noted(&self, id: MemcgId, worker: u32) -> bool {
        self.handed[id.index()].by == Some(worker)
    }
}

impl Machine {
    /// Whoever changes counters from now on is `worker`, one of [`super::MachineConfig::workers`].
    pub(super) fn work_as(&mut self, worker: usize) {
        let worker = worker % self.config.workers.max(1);
        self.worker = u32::try_from(worker).unwrap_or(0);
    }

    /// The counters of `id` may change from now on.
    #[cold]
    pub(super) fn note_change(&mut self, id: MemcgId) {
        self.hand_over(id);
        let handed = &mut self.stats.handed[id.index()];
        handed.by = Some(self.worker);
        if !core::mem::replace(&mut handed.is_listed, true) {
            self.stats.changed.push(id);
        }
    }

    /// What the lruvec of `id` has gained, if anything, becomes its worker's delta, and (classic) its part of the levels.
    fn hand_over(&mut self, id: MemcgId) {
        let handed = &mut self.stats.handed[id.index()];
        let Some(worker) = handed.by.take() else {
            return;
        };
        // A released memcg was handed over when it went.
        let Some(lruvec) = &mut self.lruvecs[id.index()] else {
            return;
        };
        let (group, now) = (handed.group, of_lruvec(lruvec));
        self.stats.rstat.bring_to(worker as usize, group, 0, &now);
        self.idle.note(id);
        if let Some(lru) = lruvec.classic_mut() {
            let notes = lru.take_notes();
            self.hierarchy.add(&self.tree, id, (lru.own(), &notes));
        }
    }

    /// The lruvec of `id` was given out since it was handed over.
    pub(super) fn has_changed(&self, id: MemcgId) -> bool {
        self.stats.handed[id.index()].by.is_some()
    }

    /// Events of tenants are few: all are handed over at once.
    fn hand_events_over(&mut self) {
        for id in self.tree.take_eventful() {
            if self.tree.exists(id) {
                let (group, now) = (self.stats.group(id), of_tenant(self.tree.get(id).events()));
                let worker = self.worker as usize;
                self.stats.rstat.bring_to(worker, group, FIRST_EVENT, &now);
            }
        }
    }

    pub(super) fn hand_all_over(&mut self) {
        self.hand_events_over();
        for id in core::mem::take(&mut self.stats.changed) {
            self.stats.handed[id.index()].is_listed = false;
            self.hand_over(id);
        }
    }

    /// Of `id` and all below it; a reader of one tenant does not pay for what changed elsewhere.
    fn hand_over_below(&mut self, id: MemcgId) -> GroupId {
        if id == MemcgId::ROOT {
            self.hand_all_over();
            return GroupId::ROOT;
        }
        self.hand_events_over();
        if self.tree.children(id).next().is_none() {
            self.hand_over(id);
        } else {
            let subtree = self.tree.pre_order(id);
            subtree.into_iter().for_each(|id| self.hand_over(id));
        }
        self.stats.group(id)
    }

    /// `id` is about to be released: what it counted stays in those above it.
    pub(super) fn remove_stats(&mut self, id: MemcgId) {
        let group = self.hand_over_below(id);
        self.stats.rstat.remove(group);
    }

    /// memory.stat of `id` and all below it. Changes of up to 64 pages a worker may be missing until the next periodic
    /// flush, as in the kernel. spec: rstat.md 6.1.
    pub fn memory_stat(&mut self, id: MemcgId) -> MemoryStat {
        let (rstat, group) = self.fresh(id);
        MemoryStat::new(rstat.totals(group))
    }

    /// memory.stat.local: of `id` alone, as fresh as [`Self::memory_stat`].
    pub fn memory_stat_local(&mut self, id: MemcgId) -> MemoryStat {
        let (rstat, group) = self.fresh(id);
        MemoryStat::new(rstat.locals(group))
    }

    fn fresh(&mut self, id: MemcgId) -> (&Rstat, GroupId) {
        let group = self.hand_over_below(id);
        if self.stats.flusher.before_read(&mut self.stats.rstat, group) {
            self.show(id);
        }
        (&self.stats.rstat, group)
    }

    /// Before reclaim reads statistics of `id`, which were handed over: flushes them if the periodic flush is late.
    pub(super) fn flush_limited(&mut self, id: MemcgId, now: Millis) -> bool {
        let group = self.stats.group(id);
        let Stats { rstat, flusher, .. } = &mut self.stats;
        flusher.before_limited_read(rstat, group, now)
    }

    /// memory.events of `id` and all below it; exact at any time.
    pub fn memory_events(&mut self, id: MemcgId) -> MemcgEvents {
        let group = self.hand_over_below(id);
        self.stats.rstat.flush(group);
        // Reclaim sees what was flushed, too: nothing is due any more that would show it.
        self.show(id);
        memcg_events(self.stats.rstat.totals(group))
    }

    /// memory.events.local; exact at any time.
    #[must_use]
    pub fn memory_events_local(&self, id: MemcgId) -> &MemcgEvents {
        self.tree.get(id).events()
    }

    /// Flushes all counters; levels of the classic lists are shown as they were.
    fn flush_counters(&mut self) {
        self.hand_all_over();
        self.stats.rstat.flush(GroupId::ROOT);
    }

    /// Brings all statistics up to date, whatever the thresholds say.
    pub fn flush_stats(&mut self) {
        self.flush_counters();
        self.show(MemcgId::ROOT);
    }

    /// The same every two seconds, which bounds how long a small change goes unseen; true when it was time.
    pub fn flush_stats_if_due(&mut self, now: Millis) -> bool {
        if now < self.stats.flusher.next_periodic() {
            return false;
        }
        self.hand_all_over();
        self.show(MemcgId::ROOT);
        self.stats.flusher.periodic(&mut self.stats.rstat, now)
    }

    /// Flushes of groups so far, counted once a worker; see [`Rstat::flushes`].
    #[cfg(test)]
    pub(super) const fn stats_flushes(&self) -> u64 {
        self.stats.rstat.flushes()
    }

    /// Inactive pages of the node that reclaim may take: anonymous ones only where there is swap. The kernel counts them
    /// for the node apart, without thresholds. spec: memcg-lru.md 6.
    pub(super) fn inactive(&mut self) -> Pages {
        self.flush_counters();
        let inactive = |ty| {
            self.stats
                .rstat
                .total(GroupId::ROOT, LruSize::inactive(ty).place())
        };
        let anon = match self.tree.swap_available(MemcgId::ROOT) {
            Pages(0) => 0,
            _ => inactive(FolioType::Anon),
        };
        Pages(anon + inactive(FolioType::File))
    }
}

#[cfg(test)]
mod tests;
