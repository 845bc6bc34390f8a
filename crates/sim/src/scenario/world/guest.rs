//! The state of a tenant in the simulation, with its counters.

use super::worker::{Worker, workers};
use crate::policy_runner::PolicyRunner;
use crate::rng::Rng;
use crate::scenario::balloon::Host;
use crate::scenario::baseline::{BaselineMemory, Touch};
use crate::scenario::file::File;
use crate::scenario::hierarchy::Hierarchy;
use engine::{FolioId, MemcgId};

/// Counters of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of touches.
    pub touches: u64,
    /// Number of touches that faulted.
    pub misses: u64,
    /// Number of pages that came in, by first touches and by refaults.
    pub came: u64,
    /// Number of pages removed when the tenant departed.
    pub unmapped: u64,
    /// Number of charges that failed at memory.max.
    pub ooms: u64,
    /// Milliseconds for which its works were asleep because the tenant was above memory.high.
    pub throttled: u64,
    /// Number of pages reclaimed from the tenant, as of its departure or the last sample.
    pub pgsteal: u64,
    /// Number of pages that refaulted.
    pub refaults: u64,
    /// Number of resident pages at the last sample.
    pub resident: u64,
    /// Number of pages in the tenant's balloon at the last sample.
    pub balloon: u64,
    /// Number of pages that the tenant's policy evicted.
    pub evicted: u64,
}

impl Counts {
    /// Adds the counters of another tenant.
    pub fn add(&mut self, other: &Self) {
        self.touches += other.touches;
        self.misses += other.misses;
        self.came += other.came;
        self.unmapped += other.unmapped;
        self.ooms += other.ooms;
        self.throttled += other.throttled;
        self.pgsteal += other.pgsteal;
        self.refaults += other.refaults;
        self.resident += other.resident;
        self.balloon += other.balloon;
        self.evicted += other.evicted;
    }
}

/// A tenant in the simulation: one instance of a `[[tenant]]` of the file. (It is a virtual machine
/// only if it has a balloon.)
pub struct Guest {
    /// Index of its `[[tenant]]` in the file.
    pub group: usize,
    /// Index of its parent in the list of all tenants, lower than its own; `None` for the root.
    pub parent: Option<usize>,
    /// Its memcg; `None` before it arrives and after it departs.
    pub memcg: Option<MemcgId>,
    /// Its counters.
    pub counts: Counts,
    /// Number of pages reclaimed from it and from all tenants below it, as in memory.stat.
    pub pgsteal: u64,
    /// Its memory under a baseline policy; `None` if the policy is one of the engine's.
    pub(super) baseline: Option<BaselineMemory>,
    pub(super) host: Option<Host>,
    /// Runs its policy; `None` if it has none, before it arrives, and after it departs.
    pub(super) policy_runner: Option<PolicyRunner>,
    pub(super) workers: Vec<Worker>,
    pub(super) arrive: u64,
    pub(super) depart: Option<u64>,
}

impl Guest {
    /// Touches a page under a baseline policy. Returns false, without a touch, if the policy is one
    /// of the engine's.
    pub(super) fn touch_baseline(&mut self, folio: FolioId) -> bool {
        let Some(baseline) = &mut self.baseline else {
            return false;
        };
        let touch = baseline.touch(folio);
        let counts = &mut self.counts;
        counts.misses += u64::from(touch != Touch::Hit);
        counts.came += u64::from(touch != Touch::Hit);
        counts.refaults += u64::from(touch == Touch::Again);
        counts.resident = baseline.held();
        counts.pgsteal = counts.came - counts.unmapped - counts.resident;
        true
    }

    /// Returns whether the tenant has departed at `now`.
    pub(super) fn is_gone(&self, now: u64) -> bool {
        self.depart.is_some_and(|depart| depart <= now)
    }
}

/// Makes all tenants of a file, with all their instances, parents before their children.
pub(super) fn guests(file: &File, tree: &Hierarchy) -> Vec<Guest> {
    let mut guests: Vec<Guest> = Vec::new();
    for &group in tree.order() {
        let tenant = file.tenant[group].get_ref();
        let above: Vec<Option<usize>> = match tree.parent(group) {
            None => vec![None],
            Some(parent) => {
                let places = (0..guests.len()).filter(|&n| guests[n].group == parent);
                places.map(Some).collect()
            }
        };
        let (arrive, depart) = tree.stay(group);
        for parent in above {
            for _ in 0..tenant.count {
                let stream = Rng::stream(file.run.seed, 1 + guests.len() as u64).next_u64();
                let works = tenant.work.iter().map(|work| work.get_ref().clone());
                guests.push(Guest {
                    group,
                    parent,
                    memcg: None,
                    counts: Counts::default(),
                    pgsteal: 0,
                    baseline: BaselineMemory::new(file.run.policy, tenant),
                    host: None,
                    policy_runner: None,
                    workers: workers(works, stream),
                    arrive,
                    depart,
                });
            }
        }
    }
    guests
}
