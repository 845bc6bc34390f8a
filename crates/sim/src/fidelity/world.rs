//! A machine with the groups of a case, and its tenants' page tables.
//!
//! Invariant: what happens depends on the case, the policy, the seed and what the guest has told alone.
//!
//! The multi-gen LRU finds accessed bits in page tables, with Bloom filters and look-around, as in the
//! kernel. The classic LRU looks at one page at a time, and finds and clears its bit in the engine's own
//! table: a check of references there is a look at the page table here.

use super::clock::Clock;
use super::told::Told;
use crate::scenario::spaces::Spaces;
use ::engine::machine::{LevelReads, OomAt};
use ::engine::memcg::MemcgLimits;
use ::engine::{
    Bytes, FaultKind, FolioId, FolioType, Limit, Lruvec, Machine, MachineConfig, MemcgId, Millis,
    Pages, Policy,
};
use models::vma::{Advice, Vma, VmaKind};
use touches::case::{Case, Group, NO_LIMIT};
use touches::stream::Stream;
use touches::turns::Turns;

/// The machine.
pub(super) struct World<'a> {
    case: &'a Case,
    machine: Machine,
    spaces: Spaces,
    /// By tenant.
    memcgs: Vec<MemcgId>,
    streams: Vec<Stream>,
    told: &'a Told,
    clock: Clock,
    now: Millis,
    /// Bursts begun.
    bursts: u64,
}

fn limits(group: &Group, kernel: Pages) -> MemcgLimits {
    let max = Pages(group.max.into()).less(kernel);
    MemcgLimits {
        low: Pages(group.low.into()),
        max: match group.max {
            NO_LIMIT => Limit::Max,
            _ => Limit::Bytes(Bytes(max.bytes().0)),
        },
        ..MemcgLimits::default()
    }
}

impl<'a> World<'a> {
    /// The groups and their tenants, before the first touch.
    pub(super) fn new(case: &'a Case, policy: Policy, seed: u64, told: &'a Told) -> Self {
        let config = MachineConfig {
            policy,
            // The guest mounts its groups without memory_recursiveprot.
            recursive_protection: false,
            level_reads: match told.flushes {
                Some(_) => LevelReads::RateLimited,
                None => LevelReads::AtOnce,
            },
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let mut ids = Vec::new();
        for group in case.groups {
            let parent = group.parent.map_or(MemcgId::ROOT, |parent| ids[parent]);
            let id = machine.create(parent, Millis(0));
            let kernel = if ids.is_empty() {
                told.kernel
            } else {
                Pages(0)
            };
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
        if let (Some(idle_walks), [id]) = (&told.idle_walks, &memcgs[..]) {
            spaces.of(*id).set_idle_walks(idle_walks.clone());
        }
        let streams = (0..case.tenants.len()).map(|n| Stream::new(case, n, seed));
        Self {
            case,
            machine,
            spaces,
            memcgs,
            streams: streams.collect(),
            told,
            clock: Clock::new(told.flushes.clone().unwrap_or_default()),
            now: Millis(0),
            bursts: 0,
        }
    }

    /// All touches of all tenants.
    ///
    /// # Errors
    /// Where there was no room: the case is wrong.
    pub(super) fn run(&mut self) -> Result<(), OomAt> {
        for (burst, (tenant, nr)) in (1..).zip(Turns::new(self.case, self.told.burst)) {
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

    /// A burst of a tenant begins.
    fn begin(&mut self, burst: u64, id: MemcgId) {
        self.bursts = burst;
        self.now = self.clock.now(burst - 1);
        self.machine.flush_stats_if_due(self.now);
        if self.told.idle_walks.is_some() {
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
        // Who faulted repeats the access.
        self.access(id, page);
        Ok(())
    }

    /// False when the page is not there.
    fn access(&mut self, id: MemcgId, page: u32) -> bool {
        if self.spaces.in_engine {
            self.machine.lruvec_mut(id).touch(FolioId(page))
        } else {
            self.spaces.of(id).touch(page.into())
        }
    }

    /// The burst that it has come to.
    pub(super) const fn bursts(&self) -> u64 {
        self.bursts
    }

    /// A tenant's lists and counters.
    pub(super) fn lruvec(&self, tenant: usize) -> &Lruvec {
        self.machine.lruvec(self.memcgs[tenant])
    }

    /// Of a tenant's touches so far.
    pub(super) fn checksum(&self, tenant: usize) -> u64 {
        self.streams[tenant].checksum()
    }

    /// # Panics
    /// When an invariant of the engine does not hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.machine.check_invariants();
    }
}
