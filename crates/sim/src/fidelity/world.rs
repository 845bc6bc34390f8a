//! A simulated machine with the control groups of a case, and the page tables of its tenants.
//!
//! Invariant: the results depend only on the case, the policy, the seed and the guest's facts.
//!
//! The multi-gen LRU finds accessed bits in page tables, with Bloom filters and look-around, as in
//! the kernel. For the classic LRU, which checks one page at a time, the accessed bits are in the
//! engine's own table. It reads and clears them there, with the same effect as in page tables.

use super::clock::Clock;
use super::guest_facts::GuestFacts;
use crate::scenario::spaces::Spaces;
use crate::vma::{Advice, Vma, VmaKind};
use ::engine::machine::{LevelReads, OomAt};
use ::engine::memcg::MemcgLimits;
use ::engine::{
    FaultKind, FolioId, FolioType, Limit, Lruvec, Machine, MachineConfig, MemcgId, Millis, Pages,
    Policy,
};
use touches::case::{Case, Group, NO_LIMIT};
use touches::stream::Stream;
use touches::turns::Turns;

/// The simulated machine with its tenants.
pub(super) struct World<'a> {
    case: &'a Case,
    machine: Machine,
    spaces: Spaces,
    /// The memcg of each tenant.
    memcgs: Vec<MemcgId>,
    streams: Vec<Stream>,
    reported: &'a GuestFacts,
    clock: Clock,
    now: Millis,
    /// Number of bursts that have begun.
    bursts: u64,
}

fn limits(group: &Group, kernel: Pages) -> MemcgLimits {
    let max = Pages(group.max.into()).less(kernel);
    MemcgLimits {
        low: Pages(group.low.into()),
        max: match group.max {
            NO_LIMIT => Limit::Max,
            _ => Limit::of(max),
        },
        ..MemcgLimits::default()
    }
}

impl<'a> World<'a> {
    /// Makes the groups and their tenants, before the first touch.
    pub(super) fn new(case: &'a Case, policy: Policy, seed: u64, reported: &'a GuestFacts) -> Self {
        let config = MachineConfig {
            policy,
            // The guest mounts its groups without memory_recursiveprot.
            recursive_protection: false,
            level_reads: match reported.flushes {
                Some(_) => LevelReads::RateLimited,
                None => LevelReads::AtOnce,
            },
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let mut ids = Vec::new();
        let mut kernels = reported.kernels.iter().copied();
        for group in case.groups {
            let parent = group.parent.map_or(MemcgId::ROOT, |parent| ids[parent]);
            let id = machine.create(parent, Millis(0));
            let kernel = kernels.next().unwrap_or(Pages(0));
            machine.set_limits(id, limits(group, kernel));
            ids.push(id);
        }
        let in_engine = matches!(policy, Policy::ActiveInactive(..));
        let mut spaces = Spaces::new(in_engine, true);
        let memcgs: Vec<MemcgId> = case.tenants.iter().map(|t| ids[t.group]).collect();
        for (tenant, id) in case.tenants.iter().zip(&memcgs) {
            machine.lruvec_mut(*id).ensure(tenant.pages as usize);
            spaces.of(*id).map(Vma {
                start: 0,
                end: tenant.pages.into(),
                kind: VmaKind::Anon,
                advice: Advice::Normal,
                first: FolioId(0),
            });
        }
        if let (Some(idle_walks), [id]) = (&reported.idle_walks, &memcgs[..]) {
            spaces.of(*id).set_idle_walks(idle_walks.clone());
        }
        let streams = (0..case.tenants.len()).map(|n| Stream::new(case, n, seed));
        Self {
            case,
            machine,
            spaces,
            memcgs,
            streams: streams.collect(),
            reported,
            clock: Clock::new(reported.flushes.clone().unwrap_or_default()),
            now: Millis(0),
            bursts: 0,
        }
    }

    /// Makes all touches of all tenants.
    ///
    /// # Errors
    /// If a limit cannot be kept, which means that the case is wrong.
    pub(super) fn run(&mut self) -> Result<(), OomAt> {
        for (burst, (tenant, nr)) in (1..).zip(Turns::new(self.case, self.reported.burst)) {
            self.begin(burst, self.memcgs[tenant]);
            for _ in 0..nr {
                let Some(touch) = self.streams[tenant].next() else {
                    break;
                };
                self.touch(self.memcgs[tenant], touch.page)?;
            }
        }
        Ok(())
    }

    /// Begins burst number `burst`; the tenant in `id` runs in it.
    fn begin(&mut self, burst: u64, id: MemcgId) {
        self.bursts = burst;
        self.now = self.clock.now(burst - 1);
        self.machine.flush_stats_if_due(self.now);
        if self.reported.idle_walks.is_some() {
            self.spaces.of(id).switch_to();
        }
    }

    fn touch(&mut self, id: MemcgId, page: u32) -> Result<(), OomAt> {
        if self.access(id, page) {
            return Ok(());
        }
        self.machine
            .make_room(id, Pages(1), self.now, &mut self.spaces)?;
        let (folio, ty) = (FolioId(page), FolioType::Anon);
        self.machine
            .fault_in(id, folio, ty, FaultKind::Refault, true);
        if !self.spaces.in_engine {
            self.spaces.of(id).install(page.into());
        }
        // The program that faulted repeats the access.
        self.access(id, page);
        Ok(())
    }

    /// Accesses a page; returns false if it is not in memory.
    fn access(&mut self, id: MemcgId, page: u32) -> bool {
        if self.spaces.in_engine {
            self.machine.lruvec_mut(id).touch(FolioId(page))
        } else {
            self.spaces.of(id).touch(page.into())
        }
    }

    /// Returns the number of the current burst.
    pub(super) const fn bursts(&self) -> u64 {
        self.bursts
    }

    /// Returns a tenant's lists and counters.
    pub(super) fn lruvec(&self, tenant: usize) -> &Lruvec {
        self.machine.lruvec(self.memcgs[tenant])
    }

    /// Returns a checksum of a tenant's touches so far.
    pub(super) fn checksum(&self, tenant: usize) -> u64 {
        self.streams[tenant].checksum()
    }

    /// Asserts every invariant of the engine.
    ///
    /// # Panics
    /// If an invariant does not hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.machine.check_invariants();
    }
}
