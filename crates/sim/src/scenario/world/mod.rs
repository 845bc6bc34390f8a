//! A machine with tenants that come, work and go, as an experiment file describes them.
//!
//! Invariant: what happens depends on the plan alone. In each step departures come first, then
//! arrivals, then work tenant by tenant in the order of the file (parents before those below them),
//! then aging, then reclaim, then balloons.
//!
//! `config` reads the file, `worker` says what is touched, `guest` what is counted; `reclaim` makes
//! room and ages, `balloons` lets hosts and guests talk.

mod balloons;
mod config;
mod guest;
mod reclaim;
mod worker;

use guest::guests;
pub use guest::{Counts, Guest};

use super::balloon::Host;
use super::file::{Access, AccessedBits, File};
use super::hierarchy::Hierarchy;
use super::plan::Plan;
use super::recorded::Event;
use super::spaces::Spaces;
use super::values::Time;
use crate::hardware;
use crate::minder::Minder;
use crate::rng::Rng;
use engine::word::State;
use engine::workingset::Refault;
use engine::{FaultKind, FolioId, FolioType, Machine, MemcgId, Memory, Millis, Pages, Swappiness};
use models::vma::OpenFileId;

/// The machine.
pub struct World {
    pub(in crate::scenario) machine: Machine,
    pub(in crate::scenario) spaces: Spaces,
    pub(in crate::scenario) guests: Vec<Guest>,
    pub(in crate::scenario) file: File,
    pub(in crate::scenario) tree: Hierarchy,
    pub(in crate::scenario) now: u64,
    /// Of reclaimers that are at work at once.
    order: Rng,
    /// A fault planted by a test.
    #[cfg(test)]
    pub(in crate::scenario) bug: Option<crate::scenario::oracle::Bug>,
}

impl World {
    /// The world of `plan`, before anybody has come.
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
            order: Rng::stream(plan.file.run.seed, u64::MAX),
            #[cfg(test)]
            bug: None,
        }
    }

    /// True when the time is over.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.now >= self.file.run.duration.0
    }

    /// The part of the time that is over.
    #[must_use]
    pub const fn done(&self) -> f64 {
        let whole = crate::stats::number(self.file.run.duration.0);
        crate::stats::number(self.now) / whole.max(1.0)
    }

    /// One step.
    pub fn step(&mut self) {
        let step = self.file.run.step.0;
        let step = step
            .min(self.file.run.duration.0.saturating_sub(self.now))
            .max(1);
        // Children first: a parent goes with nobody below it.
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
        self.look();
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
        // A released memcg's number may come again, but its address space does not.
        self.spaces.reset(id);
        let space = self.spaces.of(id);
        for (file, worker) in (0..).zip(&guest.workers) {
            worker.map(space, OpenFileId(file));
        }
        let len = space.len();
        self.machine.lruvec_mut(id).ensure(len);
        guest.memcg = Some(id);
        let (refault_us, now) = (self.file.run.refault_us, Millis(self.now));
        guest.minder = tenant
            .policy
            .map(|policy| Minder::new(policy.0, len, refault_us, now));
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
        if self.guests[n].yardstick.take().is_some() {
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
        self.guests[n].minder = None;
        let gone = self.machine.unmap_range(id, FolioId(0), len);
        self.guests[n].counts.unmapped += gone.present.0;
        self.spaces.reset(id);
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
                // Evenly over the step; what it would have done while it sleeps it does not do.
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

    /// What a recorded program did in this step; when it sleeps, it does the rest later.
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
                Event::Unmap(page) => self.give_back(n, FolioId(first + page)),
            }
        }
    }

    /// A page that its program gives back. A yardstick's list knows no such thing: there it stays until it is taken.
    fn give_back(&mut self, n: usize, folio: FolioId) {
        let guest = &mut self.guests[n];
        let Some(id) = guest.memcg.filter(|_| guest.yardstick.is_none()) else {
            return;
        };
        let gone = self.machine.unmap_range(id, folio, 1);
        guest.counts.unmapped += gone.present.0;
        if let Some(minder) = &mut guest.minder {
            minder.forget(folio);
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
        if self.guests[n].touch_yardstick(folio) {
            return;
        }
        if let Some(minder) = &mut self.guests[n].minder {
            let state = self.machine.lruvec(id).folios().get(folio).state();
            minder.touch(folio, state == State::Shadow);
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
        let how = match worker.work.access {
            Access::Mapped => FaultKind::Refault,
            Access::Descriptor => FaultKind::Descriptor,
        };
        let refault = self.bring_in((id, folio), ty, how);
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
            // Who faulted sleeps, as a thread does in the kernel; no longer than there is time. (The story, of a reading: each fault of a step was
            // counted with a sleep of its own, and none of them was slept.)
            let end = self.guests[n].depart.unwrap_or(u64::MAX);
            let until = (at + delay).min(end).min(self.file.run.duration.0);
            self.guests[n].counts.throttled += until.saturating_sub(at);
            self.guests[n].workers[w].sleeps_until = until;
        }
    }

    /// The kernel's part of a fault, and the hardware's: the access is made again.
    fn bring_in(
        &mut self,
        (id, folio): (MemcgId, FolioId),
        ty: FolioType,
        how: FaultKind,
    ) -> Option<Refault> {
        let recency = self.spaces.has_recency(id, folio);
        if self.spaces.in_engine {
            return hardware::fault(&mut self.machine, (id, folio), ty, how, recency);
        }
        let refault = self.machine.fault_in(id, folio, ty, how, recency);
        let (space, page) = (self.spaces.of(id), u64::from(folio.0));
        space.install(page);
        if how != FaultKind::Descriptor {
            space.touch(page);
        }
        refault
    }

    /// Notes what tenants hold and have lost.
    fn look(&mut self) {
        self.machine.flush_stats();
        for guest in &mut self.guests {
            if let Some(id) = guest.memcg.filter(|_| guest.yardstick.is_none()) {
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
