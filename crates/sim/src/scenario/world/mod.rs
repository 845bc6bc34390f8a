//! The simulated machine with tenants that arrive, work and depart, as an experiment file describes
//! them.
//!
//! Invariant: the results depend only on the plan. In each step departures come first, then
//! arrivals, then the work of each tenant in the order of the file (parents before their children),
//! then aging, then reclaim, then balloons.
//!
//! Modules: `config` converts the values of the file; `worker` chooses the pages to touch; `guest`
//! has the counters; `reclaim` reclaims before charges, and ages; `host_reclaim` reclaims as
//! `serve` does; `balloons` exchanges messages between hosts and guests.

mod balloons;
mod config;
mod worker;

// These modules use each other.
mod host_reclaim;
mod reclaim;

mod guest;

use guest::guests;
pub use guest::{Counts, Guest};
use host_reclaim::HostReclaim;

use super::balloon::Host;
use super::file::{Access, AccessedBits, File};
use super::hierarchy::Hierarchy;
use super::plan::Plan;
use super::recorded::Event;
use super::spaces::Spaces;
use super::values::Time;
use crate::hardware;
use crate::policy_runner::PolicyRunner;
use crate::rng::Rng;
use crate::vma::OpenFileId;
use engine::word::State;
use engine::workingset::Refault;
use engine::{
    FaultKind, FolioId, FolioType, Machine, MemcgId, Memory, Millis, NodeId, Pages, Swappiness,
};

/// The simulated machine with its tenants.
pub struct World {
    pub(in crate::scenario) machine: Machine,
    pub(in crate::scenario) spaces: Spaces,
    pub(in crate::scenario) guests: Vec<Guest>,
    pub(in crate::scenario) file: File,
    pub(in crate::scenario) tree: Hierarchy,
    pub(in crate::scenario) now: u64,
    /// The state of reclaim with `reclaim = "host"`.
    host: HostReclaim,
    /// Random numbers that choose which of several simultaneous reclaimers proceeds next.
    order: Rng,
    /// A bug planted by a test.
    #[cfg(test)]
    pub(in crate::scenario) bug: Option<crate::scenario::oracle::Bug>,
}

impl World {
    /// Makes the machine of `plan`; no tenant has arrived yet.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let file = plan.file.clone();
        let tree = Hierarchy::new(&file).unwrap_or_default();
        let guests = guests(&file, &tree);
        let spaces = Spaces::new(
            file.run.accessed_bits == AccessedBits::Engine,
            file.run.look_around,
        );
        Self {
            machine: Machine::new(config::machine(&file, &tree), Millis(0)),
            spaces,
            guests,
            file,
            tree,
            now: 0,
            host: HostReclaim::default(),
            order: Rng::stream(plan.file.run.seed, u64::MAX),
            #[cfg(test)]
            bug: None,
        }
    }

    /// Returns whether the simulated time has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.now >= self.file.run.duration.0
    }

    /// Returns the share of the simulated time that has passed, 0 to 1.
    #[must_use]
    pub const fn done(&self) -> f64 {
        let whole = crate::stats::number(self.file.run.duration.0);
        crate::stats::number(self.now) / whole.max(1.0)
    }

    /// Simulates one step.
    pub fn step(&mut self) {
        let step = self.file.run.step.0;
        let step = step
            .min(self.file.run.duration.0.saturating_sub(self.now))
            .max(1);
        // Children depart first, because a parent can depart only if no tenant is below it.
        for n in (0..self.guests.len()).rev() {
            let guest = &self.guests[n];
            if guest.memcg.is_some() && guest.is_gone(self.now) {
                self.depart(n);
            }
        }
        for n in 0..self.guests.len() {
            let guest = &self.guests[n];
            let here = guest.arrive <= self.now && !guest.is_gone(self.now);
            if guest.memcg.is_none() && here {
                self.arrive(n);
            }
        }
        for n in 0..self.guests.len() {
            if self.guests[n].memcg.is_some() {
                self.work(n, step);
            }
        }
        let before = self.now;
        self.now += step;
        self.age(before);
        self.reclaim(before);
        self.balloons();
        self.sample();
    }

    fn arrive(&mut self, n: usize) {
        let tenant = self.file.tenant[self.guests[n].group].get_ref();
        let above = self.guests[n]
            .parent
            .and_then(|above| self.guests[above].memcg);
        let id = self
            .machine
            .create(above.unwrap_or(MemcgId::ROOT), Millis(self.now));
        self.machine.set_limits(id, config::limits(tenant));
        if let Some(swappiness) = tenant.swappiness.and_then(Swappiness::new) {
            self.machine.set_swappiness(id, swappiness);
        }
        let guest = &mut self.guests[n];
        // The number of a removed memcg may be used again, so its old address space is removed.
        self.spaces.reset(id);
        let space = self.spaces.of(id);
        for (file, worker) in (0..).zip(&guest.workers) {
            worker.map(space, OpenFileId(file));
        }
        let len = space.len();
        self.machine.lruvec_mut(id).ensure(len);
        guest.memcg = Some(id);
        let (refault_us, now) = (self.file.run.refault_us, Millis(self.now));
        guest.policy_runner = tenant
            .policy
            .map(|policy| PolicyRunner::new(policy.0, len, refault_us, now));
        let guest_memory = tenant.memory_max.zip(tenant.balloon_older_than);
        let every = tenant.balloon_every.unwrap_or(Time(10_000));
        if let Some((memory, older_than)) = guest_memory {
            let (older_than, every) = (Millis(older_than.0), Millis(every.0));
            let host = Host::new(Pages(memory.pages()), older_than, every, Millis(self.now));
            self.connect(n, id, host);
        }
    }

    fn depart(&mut self, n: usize) {
        let Some(id) = self.guests[n].memcg.take() else {
            return;
        };
        if self.guests[n].baseline.take().is_some() {
            self.guests[n].counts.unmapped = self.guests[n].counts.resident;
        } else {
            self.machine.flush_stats();
            self.guests[n].counts.pgsteal = self.machine.memory_stat_local(id).events.pgsteal();
        }
        let len = self.machine.lruvec(id).folios().len();
        (
            self.guests[n].counts.resident,
            self.guests[n].counts.balloon,
        ) = (0, 0);
        self.guests[n].host = None;
        self.guests[n].policy_runner = None;
        let gone = self.machine.unmap_range(id, FolioId(0), len);
        self.guests[n].counts.unmapped += gone.present.0;
        self.spaces.reset(id);
        self.host.forget(id);
        self.machine.offline(id);
    }

    fn work(&mut self, n: usize, step: u64) {
        let since = self.now - self.guests[n].arrive;
        for w in 0..self.guests[n].workers.len() {
            if self.guests[n].workers[w].sleeps_until >= self.now + step {
                continue;
            }
            let due = self.guests[n].workers[w].due(since, step);
            for touch in 0..due {
                // Touches are spread evenly over the step; those during a sleep are not made.
                let at = self.now + touch * step / due;
                if self.guests[n].workers[w].sleeps_until > at {
                    continue;
                }
                let next = self.guests[n].workers[w].next(self.now);
                let Some(folio) = next else { break };
                self.touch((n, w), folio, at);
            }
            self.replay(n, w, (since, step));
        }
    }

    /// Replays the events of a recorded program in this step; after a sleep, also the events during
    /// the sleep.
    fn replay(&mut self, n: usize, w: usize, (since, step): (u64, u64)) {
        loop {
            let at = self.now.max(self.guests[n].workers[w].sleeps_until);
            if at >= self.now + step {
                return;
            }
            let Some(event) = self.guests[n].workers[w].replay(since, step) else {
                return;
            };
            let first = self.guests[n].workers[w].first;
            match event {
                Event::Access(page) => self.touch((n, w), FolioId(first + page), at),
                Event::Unmap(page) => self.free_page(n, FolioId(first + page)),
            }
        }
    }

    /// Frees a page that the recorded program freed. The list of a baseline policy cannot free
    /// pages, so there the page stays until it is evicted.
    fn free_page(&mut self, n: usize, folio: FolioId) {
        let guest = &mut self.guests[n];
        let Some(id) = guest.memcg.filter(|_| guest.baseline.is_none()) else {
            return;
        };
        let gone = self.machine.unmap_range(id, folio, 1);
        guest.counts.unmapped += gone.present.0;
        if let Some(policy_runner) = &mut guest.policy_runner {
            policy_runner.forget(folio);
        }
        if !self.spaces.in_engine {
            self.spaces.of(id).zap(folio);
        }
    }

    fn touch(&mut self, (n, w): (usize, usize), folio: FolioId, at: u64) {
        let Some(id) = self.guests[n].memcg else {
            return;
        };
        self.guests[n].counts.touches += 1;
        if self.guests[n].touch_baseline(folio) {
            return;
        }
        if let Some(policy_runner) = &mut self.guests[n].policy_runner {
            let state = self.machine.lruvec(id).folios().get(folio).state();
            policy_runner.touch(folio, state == State::Shadow);
        }
        let descriptor = self.guests[n].workers[w].work.access == Access::Descriptor;
        let present = if self.spaces.in_engine && !descriptor {
            self.machine.lruvec_mut(id).touch(folio)
        } else if descriptor {
            self.machine.lruvec(id).folios().get(folio).is_present()
        } else {
            self.spaces.of(id).touch(u64::from(folio.0))
        };
        if !present {
            self.fault((n, w), folio, at);
        }
        if descriptor {
            self.machine.lruvec_mut(id).mark_accessed(folio);
        }
    }

    fn fault(&mut self, (n, w): (usize, usize), folio: FolioId, at: u64) {
        let Some(id) = self.guests[n].memcg else {
            return;
        };
        self.make_room(n, id);
        let worker = &self.guests[n].workers[w];
        let ty = worker.folio_type();
        let kind = match worker.work.access {
            Access::Mapped => FaultKind::Refault,
            Access::Descriptor => FaultKind::Descriptor,
        };
        let node = NodeId::of_index(worker.work.node.into());
        let refault = self.bring_in((id, folio), ty, kind);
        if node != NodeId::default() {
            self.machine.lruvec_mut(id).set_node(folio, node);
        }
        let counts = &mut self.guests[n].counts;
        counts.misses += 1;
        counts.came += 1;
        counts.refaults += u64::from(refault.is_some());
        #[cfg(test)]
        if self.bug == Some(crate::scenario::oracle::Bug::CountsTwice) {
            self.guests[n].counts.came += 1;
        }
        let now = Millis(self.now);
        let delay = self
            .machine
            .over_high(id, Pages(1), now, &mut self.spaces)
            .0;
        if delay > 0 {
            // The worker that faulted sleeps, like a thread in the kernel, but not beyond its
            // tenant's departure or the end of the run. Only the time asleep counts.
            let end = self.guests[n].depart.unwrap_or(u64::MAX);
            let until = (at + delay).min(end).min(self.file.run.duration.0);
            self.guests[n].counts.throttled += until.saturating_sub(at);
            self.guests[n].workers[w].sleeps_until = until;
        }
    }

    /// Does what the kernel does at a fault, and then what the hardware does: it repeats the
    /// access.
    fn bring_in(
        &mut self,
        (id, folio): (MemcgId, FolioId),
        ty: FolioType,
        kind: FaultKind,
    ) -> Option<Refault> {
        let recency = self.spaces.has_recency(id, folio);
        if self.spaces.in_engine {
            return hardware::fault(&mut self.machine, (id, folio), ty, kind, recency);
        }
        let refault = self.machine.fault_in(id, folio, ty, kind, recency);
        let (space, page) = (self.spaces.of(id), u64::from(folio.0));
        space.install(page);
        if kind != FaultKind::Descriptor {
            space.touch(page);
        }
        refault
    }

    /// Updates the counts of all tenants: resident pages, reclaimed pages, pages in balloons.
    fn sample(&mut self) {
        self.machine.flush_stats();
        for guest in &mut self.guests {
            if let Some(id) = guest.memcg.filter(|_| guest.baseline.is_none()) {
                guest.counts.pgsteal = self.machine.memory_stat_local(id).events.pgsteal();
                guest.pgsteal = self.machine.memory_stat(id).events.pgsteal();
                #[cfg(test)]
                if self.bug == Some(crate::scenario::oracle::Bug::MiscountsTheTree) {
                    guest.pgsteal += 1;
                }
                guest.counts.resident = self.machine.lruvec(id).resident().0;
                let balloon = guest.host.as_ref().map(Host::balloon);
                guest.counts.balloon = balloon.unwrap_or_default().0;
            }
        }
    }
}
