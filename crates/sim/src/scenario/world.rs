//! A machine with tenants that come, work and go, as an experiment file describes them.
//!
//! Invariant: what happens depends on the plan alone. In each step departures come first, then
//! arrivals, then work tenant by tenant in the order of the file, then aging, then reclaim.

use super::balloon::{self, Host};
use super::file::{Access, AccessedBits, AdviceName, File, Global, Kind, PolicyName, Work};
use super::pattern::Pattern;
use super::plan::Plan;
use super::spaces::Spaces;
use crate::rng::Rng;
use engine::active_inactive::Stage;
use engine::lru_gen::Profile;
use engine::machine::{GlobalReclaim, ReclaimRequest};
use engine::memcg::{MemcgId, MemcgLimits};
use models::vma::{Advice, Fadvice, OpenFileId, Vma, VmaKind};
use engine::{
    Bytes, FaultKind, FolioId, FolioType, Limit, Machine, MachineConfig, Millis, Pages, Policy,
    ScanReason, Swappiness,
};

/// One work of one tenant.
struct Worker {
    work: Work,
    pattern: Pattern,
    rng: Rng,
    /// First page and first folio of its mapping.
    first: u32,
    pages: u32,
    recency: bool,
    /// Touches owed, in thousandths.
    owed: u64,
}

/// What is counted of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches.
    pub touches: u64,
    /// Those that faulted.
    pub misses: u64,
    /// Pages that came in.
    pub came: u64,
    /// Pages that went at departure.
    pub unmapped: u64,
    /// Charges that found no room under memory.max.
    pub ooms: u64,
    /// Milliseconds slept for being above memory.high.
    pub throttled: u64,
    /// Pages taken, as counted when it departed.
    pub pgsteal: u64,
    /// Pages that came back.
    pub refaults: u64,
    /// Resident pages when it was looked at last.
    pub resident: u64,
    /// Pages in its balloon then.
    pub balloon: u64,
}

/// A tenant.
pub struct Guest {
    /// Place of its `[[tenant]]` in the file.
    pub group: usize,
    /// Where it is, while it is there.
    pub memcg: Option<MemcgId>,
    /// What was counted.
    pub counts: Counts,
    host: Option<Host>,
    workers: Vec<Worker>,
    arrive: u64,
    depart: Option<u64>,
    sleeps_until: u64,
}

/// The machine.
pub struct World {
    pub(super) machine: Machine,
    pub(super) spaces: Spaces,
    pub(super) guests: Vec<Guest>,
    pub(super) file: File,
    pub(super) now: u64,
    /// Of reclaimers that are at work at once.
    order: Rng,
    /// A fault planted by a test.
    #[cfg(test)]
    pub(super) bug: Option<super::oracle::Bug>,
}

impl World {
    /// The world of `plan`, before anybody has come.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let file = plan.file.clone();
        let pages: u64 = file.tenant.iter().map(|t| pages_of(t.get_ref())).sum();
        let memory = file.run.memory.map_or(pages, super::values::Size::pages);
        let config = MachineConfig {
            policy: policy(file.run.policy, Pages(memory)),
            global: match file.run.global {
                Global::MemcgLru => GlobalReclaim::MemcgLru,
                Global::Iterator => GlobalReclaim::Iterator,
            },
            seed: Rng::stream(file.run.seed, 0).next_u64(),
            swap: limit(file.run.swap),
            bound_shadows: file.run.bound_shadows,
            ..MachineConfig::default()
        };
        let mut guests = Vec::new();
        for (group, tenant) in file.tenant.iter().map(toml::Spanned::get_ref).enumerate() {
            for _ in 0..tenant.count {
                let stream = Rng::stream(file.run.seed, 1 + guests.len() as u64).next_u64();
                let works = tenant.work.iter().map(|work| *work.get_ref());
                guests.push(Guest {
                    group,
                    memcg: None,
                    counts: Counts::default(),
                    host: None,
                    workers: workers(works, stream),
                    arrive: tenant.arrive.0,
                    depart: tenant.depart.map(|depart| depart.0),
                    sleeps_until: 0,
                });
            }
        }
        let spaces = Spaces::new(
            file.run.accessed_bits == AccessedBits::Engine,
            file.run.look_around,
        );
        Self {
            machine: Machine::new(config, Millis(0)),
            spaces,
            guests,
            file,
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
        for n in 0..self.guests.len() {
            let guest = &self.guests[n];
            if guest.memcg.is_some() && guest.depart.is_some_and(|depart| depart <= self.now) {
                self.depart(n);
            }
        }
        for n in 0..self.guests.len() {
            let guest = &self.guests[n];
            let gone = guest.depart.is_some_and(|depart| depart <= self.now);
            if guest.memcg.is_none() && guest.arrive <= self.now && !gone {
                self.arrive(n);
            }
        }
        for n in 0..self.guests.len() {
            if self.guests[n].memcg.is_some() && self.guests[n].sleeps_until <= self.now {
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
        let id = self.machine.create(MemcgId::ROOT, Millis(self.now));
        let pages = |size: Option<super::values::Size>| Pages(size.map_or(0, |s| s.pages()));
        let limits = MemcgLimits {
            min: pages(tenant.memory_min),
            low: pages(tenant.memory_low),
            high: limit(tenant.memory_high),
            max: limit(tenant.memory_max),
            soft: limit(tenant.soft_limit),
            swap_max: limit(tenant.swap_max),
            swap_high: limit(tenant.swap_high),
        };
        self.machine.set_limits(id, limits);
        if let Some(swappiness) = tenant.swappiness.and_then(Swappiness::new) {
            self.machine.set_swappiness(id, swappiness);
        }
        let guest = &mut self.guests[n];
        // A released memcg's number may come again, but its address space does not.
        self.spaces.reset(id);
        let space = self.spaces.of(id);
        for (file, worker) in (0..).zip(&mut guest.workers) {
            worker.recency = map(space, worker, OpenFileId(file));
        }
        let len = space.len();
        self.machine.lruvec_mut(id).ensure(len);
        guest.memcg = Some(id);
        let guest_memory = tenant.memory_max.zip(tenant.balloon_older_than);
        let every = tenant.balloon_every.unwrap_or(super::values::Time(10_000));
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
        let lruvec = self.machine.lruvec(id);
        let len = lruvec.folios().len();
        self.guests[n].counts.pgsteal = lruvec.stat().pgsteal();
        (
            self.guests[n].counts.resident,
            self.guests[n].counts.balloon,
        ) = (0, 0);
        self.guests[n].host = None;
        let gone = self.machine.unmap_range(id, FolioId(0), len);
        self.guests[n].counts.unmapped += gone.present.0;
        self.spaces.reset(id);
        self.machine.offline(id);
    }

    fn work(&mut self, n: usize, step: u64) {
        let arrived = self.guests[n].arrive;
        for w in 0..self.guests[n].workers.len() {
            let worker = &mut self.guests[n].workers[w];
            let since = self.now - arrived;
            let stopped = worker.work.stop.is_some_and(|stop| stop.0 <= since);
            if worker.work.start.0 > since || stopped {
                continue;
            }
            worker.owed += worker.work.rate.0 * step;
            let touches = worker.owed / 1000;
            worker.owed %= 1000;
            for _ in 0..touches {
                let worker = &mut self.guests[n].workers[w];
                let next = worker.pattern.next(&mut worker.rng, worker.pages, self.now);
                let Some(page) = next else { break };
                let page = worker.first + page;
                self.touch(n, w, page);
            }
        }
    }

    fn touch(&mut self, n: usize, w: usize, page: u32) {
        let Some(id) = self.guests[n].memcg else {
            return;
        };
        self.guests[n].counts.touches += 1;
        let descriptor = self.guests[n].workers[w].work.access == Access::Descriptor;
        let folio = FolioId(page);
        let present = if self.spaces.in_engine && !descriptor {
            self.machine.lruvec_mut(id).touch(folio)
        } else if descriptor {
            self.machine.lruvec(id).folios().get(folio).is_present()
        } else {
            self.spaces.of(id).touch(u64::from(page))
        };
        if !present {
            self.fault(n, w, folio);
        }
        if descriptor {
            self.machine.lruvec_mut(id).mark_accessed(folio);
        }
    }

    fn fault(&mut self, n: usize, w: usize, folio: FolioId) {
        let Some(id) = self.guests[n].memcg else {
            return;
        };
        self.make_room(n, id);
        let worker = &self.guests[n].workers[w];
        let (ty, recency) = (kind(worker.work.memory), worker.recency);
        let how = match worker.work.access {
            Access::Mapped => FaultKind::Refault,
            Access::Descriptor => FaultKind::Descriptor,
        };
        let refault = self.machine.fault_in(id, folio, ty, how, recency);
        self.spaces.of(id).install(u64::from(folio.0));
        let counts = &mut self.guests[n].counts;
        counts.misses += 1;
        counts.came += 1;
        counts.refaults += u64::from(refault.is_some());
        #[cfg(test)]
        if self.bug == Some(super::oracle::Bug::CountsTwice) {
            self.guests[n].counts.came += 1;
        }
        let now = Millis(self.now);
        let delay = self
            .machine
            .over_high(id, Pages(1), now, &mut self.spaces)
            .0;
        if delay > 0 {
            self.guests[n].counts.throttled += delay;
            self.guests[n].sleeps_until = self.now + delay;
        }
    }

    /// Room for one page: on the machine, and under the limits of `id`.
    fn make_room(&mut self, n: usize, id: MemcgId) {
        let root = self.machine.tree().get(MemcgId::ROOT).usage();
        if let Some(memory) = self.file.run.memory
            && root.0 + 1 > memory.pages()
        {
            let nr = Pages((root.0 + 1 - memory.pages()).max(128));
            self.reclaim_root(nr);
        }
        #[cfg(test)]
        if self.bug == Some(super::oracle::Bug::IgnoresMax) {
            return;
        }
        let now = Millis(self.now);
        let room = self.machine.make_room(id, Pages(1), now, &mut self.spaces);
        self.guests[n].counts.ooms += u64::from(room.is_err());
    }

    /// Direct reclaim of `nr` pages of the machine, by as many at once as the file says; chance says
    /// who of them goes next.
    fn reclaim_root(&mut self, nr: Pages) {
        let root = MemcgId::ROOT;
        let request = self.request(ScanReason::Direct, nr, None);
        let reclaimers = self.file.run.reclaimers;
        if reclaimers > 1 {
            let nr = Pages(nr.0.div_ceil(u64::from(reclaimers)));
            let requests = vec![ReclaimRequest { nr, ..request }; usize::from(reclaimers)];
            let order = &mut self.order;
            let mut pick = |among: usize| order.below(u32::try_from(among).unwrap_or(1)) as usize;
            self.machine
                .reclaim_together(root, &requests, &mut pick, &mut self.spaces);
            return;
        }
        match self.file.run.global {
            Global::MemcgLru => self.machine.reclaim_root(request, &mut self.spaces),
            Global::Iterator => self
                .machine
                .reclaim_subtree(root, request, &mut self.spaces),
        };
    }

    fn request(
        &self,
        reason: ScanReason,
        nr: Pages,
        swappiness: Option<Swappiness>,
    ) -> ReclaimRequest {
        ReclaimRequest {
            reason,
            nr,
            swappiness,
            now: Millis(self.now),
        }
    }

    fn age(&mut self, before: u64) {
        let due = |every: u64| before / every != self.now / every;
        if !self.file.run.age_every.is_some_and(|every| due(every.0)) {
            return;
        }
        use engine::Memory;
        for id in self.guests.iter().filter_map(|guest| guest.memcg) {
            let lruvec = self.machine.lruvec_mut(id);
            let Some(seq) = lruvec.multi_gen().map(engine::lru_gen::LruGen::max_seq) else {
                continue;
            };
            if lruvec.begin_walk(seq) {
                self.spaces.walk_all(id, lruvec);
                lruvec.inc_max_seq(seq, Swappiness::default(), Millis(self.now));
            }
        }
    }

    fn reclaim(&mut self, before: u64) {
        for r in 0..self.file.reclaim.len() {
            let reclaim = self.file.reclaim[r].get_ref().clone();
            let start = reclaim.start.0;
            let times = |t: u64| match (t.checked_sub(start), reclaim.every) {
                (None, _) => 0,
                (Some(since), Some(every)) => since / every.0 + 1,
                (Some(_), None) => 1,
            };
            let first = u64::from(before == 0 && start == 0);
            for _ in times(before) - first.min(times(before))..times(self.now) {
                self.write_reclaim(&reclaim);
            }
        }
    }

    fn write_reclaim(&mut self, reclaim: &super::file::Reclaim) {
        let swappiness = reclaim.swappiness.and_then(Swappiness::new);
        let nr = Pages(reclaim.size.pages());
        let request = self.request(ScanReason::Proactive, nr, swappiness);
        let named = |guest: &&Guest| {
            let name = &self.file.tenant[guest.group].get_ref().name;
            reclaim.tenant.as_ref() == Some(name)
        };
        let targets: Vec<MemcgId> = match &reclaim.tenant {
            None => vec![MemcgId::ROOT],
            Some(_) => {
                let guests = self.guests.iter().filter(named);
                guests.filter_map(|guest| guest.memcg).collect()
            }
        };
        for id in targets {
            // Less than asked for is a result, and shows in pgsteal.
            let _ = self
                .machine
                .proactive_reclaim(id, request, &mut self.spaces);
        }
        #[cfg(test)]
        super::oracle::plant(self);
    }

    /// `n`, which is there as `id`, is a guest of `host`.
    fn connect(&mut self, n: usize, id: MemcgId, host: Host) {
        let (config, now) = (host.config(), Millis(self.now));
        self.machine.connect_balloon(id, balloon::NODE);
        self.machine
            .balloon_message(id, &config, now, &mut self.spaces);
        self.guests[n].host = Some(host);
    }

    /// Hosts ask and hear, and balloons follow.
    fn balloons(&mut self) {
        let now = Millis(self.now);
        let pressed = self.machine.pressed_guests(now, &mut self.spaces);
        for n in 0..self.guests.len() {
            let guest = &mut self.guests[n];
            let (Some(id), Some(host)) = (guest.memcg, &mut guest.host) else {
                continue;
            };
            let before = host.allowed();
            for (_, report) in pressed.iter().filter(|(who, _)| *who == id) {
                host.relieve(report, now);
            }
            let question = host.ask(now);
            let answer = question.and_then(|question| {
                let spaces = &mut self.spaces;
                self.machine.balloon_message(id, &question, now, spaces)
            });
            answer.into_iter().for_each(|answer| host.follow(&answer));
            if host.allowed() != before {
                self.resize(n, id);
            }
        }
    }

    /// The guest may have as much as its host says; what cannot go stays with it.
    fn resize(&mut self, n: usize, id: MemcgId) {
        let Some(host) = &mut self.guests[n].host else {
            return;
        };
        let now = Millis(self.now);
        for _attempt in 0..2 {
            let max = Limit::Bytes(host.allowed().bytes());
            let limits = self.machine.tree().get(id).limits();
            self.machine.set_limits(id, MemcgLimits { max, ..limits });
            let done = self.machine.enforce_limits(id, now, &mut self.spaces);
            if done.is_ok() {
                break;
            }
            host.allow(self.machine.tree().get(id).usage());
        }
    }

    /// Notes what tenants hold and have lost.
    fn look(&mut self) {
        for guest in &mut self.guests {
            if let Some(id) = guest.memcg {
                let lruvec = self.machine.lruvec(id);
                guest.counts.pgsteal = lruvec.stat().pgsteal();
                guest.counts.resident = lruvec.resident().0;
                let balloon = guest.host.as_ref().map(Host::balloon);
                guest.counts.balloon = balloon.unwrap_or_default().0;
            }
        }
    }
}

fn limit(size: Option<super::values::Size>) -> Limit {
    size.map_or(Limit::Max, |size| Limit::Bytes(Bytes(size.0)))
}

fn pages_of(tenant: &super::file::Tenant) -> u64 {
    let pages: u64 = tenant.work.iter().map(|w| w.get_ref().size.pages()).sum();
    pages * u64::from(tenant.count)
}

const fn policy(name: PolicyName, memory: Pages) -> Policy {
    match name {
        PolicyName::MultiGen => Policy::MultiGen(Profile::P616),
        PolicyName::MultiGen63 => Policy::MultiGen(Profile::P63),
        PolicyName::ActiveInactive => Policy::ActiveInactive(Stage::Detection, memory),
        PolicyName::ActiveInactiveProtection => Policy::ActiveInactive(Stage::Protection, memory),
        PolicyName::ActiveInactiveBase => Policy::ActiveInactive(Stage::Base, memory),
    }
}

const fn kind(memory: Kind) -> FolioType {
    match memory {
        Kind::Anon => FolioType::Anon,
        Kind::File => FolioType::File,
    }
}

fn workers(works: impl Iterator<Item = Work>, seed: u64) -> Vec<Worker> {
    let mut first = 0;
    let mut all = Vec::new();
    for (n, work) in (0..).zip(works) {
        let pages = u32::try_from(work.size.pages()).unwrap_or(u32::MAX);
        all.push(Worker {
            pattern: Pattern::new(&work),
            rng: Rng::stream(seed, n),
            work,
            first,
            pages,
            recency: true,
            owed: 0,
        });
        first += pages;
    }
    all
}

/// Maps a worker's memory; whether its accesses mean anything.
fn map(space: &mut super::space::Space, worker: &Worker, file: OpenFileId) -> bool {
    let advice = match worker.work.advice {
        AdviceName::Normal | AdviceName::Noreuse => Advice::Normal,
        AdviceName::Sequential => Advice::Sequential,
        AdviceName::Random => Advice::Random,
    };
    let start = u64::from(worker.first);
    let vma = Vma {
        start,
        end: start + u64::from(worker.pages),
        kind: match worker.work.memory {
            Kind::Anon => VmaKind::Anon,
            Kind::File => VmaKind::File(file),
        },
        advice,
        first: FolioId(worker.first),
    };
    space.map(vma);
    if worker.work.advice == AdviceName::Noreuse {
        space.map.fadvise(file, Fadvice::NoReuse);
    }
    space.map.has_recency(&vma)
}
