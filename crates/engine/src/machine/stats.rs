//! memory.stat and memory.events of all memcgs, counted as in the kernel: each worker keeps its
//! changes apart until a reader flushes them.
//! spec: rstat.md.
//!
//! The counters of a lruvec correspond to the kernel's per-processor counters: they only grow, and
//! one worker at a time changes them. Handing over a memcg adds the gain of its counters since its
//! last handing over to the worker's delta in rstat. So a touch or a fault costs nothing here.
//!
//! Invariants: a memcg whose lruvec's counters differ from what was handed over is in `changed`,
//! with the worker that changed them; after a flush of the root, a memcg's totals are its own
//! counters, its children's totals, and those of removed children.

use super::Machine;
use crate::folio::FolioType;
use crate::memcg::{MemcgEvents, MemcgId};
use crate::memory_stat::{
    FIRST_EVENT, LruSize, MemoryStat, NR_COUNTED, lruvec_counters, memcg_events, tenant_counters,
};
use crate::rstat::{Flusher, GroupId, Rstat};
use crate::units::{Millis, Pages};
use alloc::vec::Vec;

/// Which changes of one memcg's counters are still to be handed over to rstat.
#[derive(Clone, Copy, Debug)]
struct Handed {
    group: GroupId,
    /// The worker that has changed the memcg's lruvec since the last handing over; `None` if none
    /// has.
    changed_by: Option<u32>,
    /// Whether the memcg is in [`Stats::changed`]. It may stay there after it was handed over
    /// alone.
    is_listed: bool,
}

/// The rstat groups, one for each memcg, and the memcgs that are still to be handed over.
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
            changed_by: None,
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

    /// Whether [`Machine::note_change`] has noted already that `worker` changes the counters of
    /// `id`.
    #[inline]
    pub(super) fn is_noted(&self, id: MemcgId, worker: u32) -> bool {
        self.handed[id.index()].changed_by == Some(worker)
    }
}

impl Machine {
    /// Attributes changes of counters from now on to the worker of this index, modulo
    /// [`super::MachineConfig::workers`].
    pub(super) fn set_worker(&mut self, worker: usize) {
        let worker = worker % self.config.workers.max(1);
        self.worker = u32::try_from(worker).unwrap_or(0);
    }

    /// Notes that the present worker may change the counters of `id` from now on; first hands over
    /// earlier changes.
    #[cold]
    pub(super) fn note_change(&mut self, id: MemcgId) {
        self.hand_over(id);
        let handed = &mut self.stats.handed[id.index()];
        handed.changed_by = Some(self.worker);
        if !core::mem::replace(&mut handed.is_listed, true) {
            self.stats.changed.push(id);
        }
    }

    /// Adds what the counters of `id` gained to its worker's delta, and, under the classic policy,
    /// the changes of its lists to the levels.
    fn hand_over(&mut self, id: MemcgId) {
        let handed = &mut self.stats.handed[id.index()];
        let Some(worker) = handed.changed_by.take() else {
            return;
        };
        // A released memcg was handed over when it was released.
        let Some(lruvec) = &mut self.lruvecs[id.index()] else {
            return;
        };
        let (group, now) = (handed.group, lruvec_counters(lruvec));
        self.stats.rstat.bring_to(worker as usize, group, 0, &now);
        self.idle.note(id);
        if let Some(lru) = lruvec.classic_mut() {
            let notes = lru.take_notes();
            let evicted = lru.take_evicted_for_target();
            self.hierarchy
                .add(&self.tree, id, (lru.own(), &notes, evicted));
        }
    }

    /// Whether the lruvec of `id` may have changed since it was last handed over.
    pub(super) fn has_changed(&self, id: MemcgId) -> bool {
        self.stats.handed[id.index()].changed_by.is_some()
    }

    /// Hands over the events of all memcgs that counted any: few do.
    fn hand_events_over(&mut self) {
        for id in self.tree.take_eventful() {
            if self.tree.exists(id) {
                let (group, now) = (
                    self.stats.group(id),
                    tenant_counters(self.tree.get(id).events()),
                );
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

    /// Hands over `id` and all memcgs below it, so that a reader of one tenant does not pay for
    /// changes elsewhere. Returns the group of `id`.
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

    /// Adds the counts of `id` to those of the memcgs above it, before `id` is released.
    pub(super) fn remove_stats(&mut self, id: MemcgId) {
        let group = self.hand_over_below(id);
        self.stats.rstat.remove(group);
    }

    /// Returns memory.stat of `id` and all memcgs below it. Changes of up to 64 pages a worker may
    /// be missing until the next periodic flush, as in the kernel.
    /// spec: rstat.md 6.1.
    pub fn memory_stat(&mut self, id: MemcgId) -> MemoryStat {
        let (rstat, group) = self.flush_for_read(id);
        MemoryStat::new(rstat.totals(group))
    }

    /// Returns memory.stat.local, the statistics of `id` alone; as fresh as [`Self::memory_stat`].
    pub fn memory_stat_local(&mut self, id: MemcgId) -> MemoryStat {
        let (rstat, group) = self.flush_for_read(id);
        MemoryStat::new(rstat.locals(group))
    }

    fn flush_for_read(&mut self, id: MemcgId) -> (&Rstat, GroupId) {
        let group = self.hand_over_below(id);
        if self.stats.flusher.before_read(&mut self.stats.rstat, group) {
            self.show(id);
        }
        (&self.stats.rstat, group)
    }

    /// Flushes the statistics of `id` if the periodic flush is late; reclaim calls this before it
    /// reads them. The caller has handed over all changes. Returns whether it flushed.
    pub(super) fn flush_limited(&mut self, id: MemcgId, now: Millis) -> bool {
        let group = self.stats.group(id);
        let Stats { rstat, flusher, .. } = &mut self.stats;
        flusher.before_limited_read(rstat, group, now)
    }

    /// Returns memory.events of `id` and all memcgs below it; exact at any time.
    pub fn memory_events(&mut self, id: MemcgId) -> MemcgEvents {
        let group = self.hand_over_below(id);
        self.stats.rstat.flush(group);
        // The flush makes these statistics visible to reclaim, too.
        self.show(id);
        memcg_events(self.stats.rstat.totals(group))
    }

    /// Returns memory.events.local, of `id` alone; exact at any time.
    #[must_use]
    pub fn memory_events_local(&self, id: MemcgId) -> &MemcgEvents {
        self.tree.get(id).events()
    }

    /// Flushes all counters, but does not make them visible to reclaim by the classic lists.
    fn flush_counters(&mut self) {
        self.hand_all_over();
        self.stats.rstat.flush(GroupId::ROOT);
    }

    /// Flushes all statistics, however little has changed.
    pub fn flush_stats(&mut self) {
        self.flush_counters();
        self.show(MemcgId::ROOT);
    }

    /// Flushes all statistics if two seconds have passed since the last periodic flush, so that no
    /// change stays invisible for longer. Returns whether it flushed.
    pub fn flush_stats_if_due(&mut self, now: Millis) -> bool {
        if now < self.stats.flusher.next_periodic() {
            return false;
        }
        self.hand_all_over();
        self.show(MemcgId::ROOT);
        self.stats.flusher.periodic(&mut self.stats.rstat, now)
    }

    /// Returns the number of group flushes so far, counted for each worker; see [`Rstat::flushes`].
    #[cfg(test)]
    pub(super) const fn stats_flushes(&self) -> u64 {
        self.stats.rstat.flushes()
    }

    /// Returns the number of inactive pages of the machine that reclaim may take; anon pages count
    /// only if swap is free. Exact, because the kernel counts these pages for the node, without a
    /// threshold.
    /// spec: memcg-lru.md 6.
    pub(super) fn inactive(&mut self) -> Pages {
        self.flush_counters();
        let inactive = |ty| {
            self.stats
                .rstat
                .total(GroupId::ROOT, LruSize::inactive(ty).index())
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
