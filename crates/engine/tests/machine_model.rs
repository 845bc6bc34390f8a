//! Compares a tree of tenants with a simple model of their charges, under random operations.
//!
//! The model has a set of pages in memory and a set of swapped-out pages for each tenant, and sums
//! their sizes after each operation. It reads from the engine which pages a reclaim evicted, and
//! checks all that follows from that.
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::machine::{Machine, MachineConfig, ReclaimRequest};
use engine::memcg::{MemcgId, MemcgLimits, MemcgProfile};
use engine::word::State;
use engine::{
    FaultKind, FolioId, FolioType, Limit, Lruvec, Memory, Millis, PageOut, Pages, Policy,
    ScanReason,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Number of page ids of each tenant.
const PAGES: u32 = 150;
const CLASSIC: Policy = Policy::ActiveInactive(Stage::Detection, Pages(1000));

#[derive(Clone, Debug)]
enum Op {
    Create { parent: usize },
    Offline { tenant: usize },
    Fault { tenant: usize, id: u32, len: u32 },
    Touch { tenant: usize, id: u32, len: u32 },
    Unmap { tenant: usize, id: u32, len: u32 },
    Max { tenant: usize, pages: u64 },
    Min { tenant: usize, pages: u64 },
    SwapMax { tenant: usize, pages: u64 },
    Soft { tenant: usize, pages: u64 },
    Reclaim { tenant: usize, nr: u64 },
}

/// Random operations; the numbers before `=>` are their weights.
fn ops() -> impl Strategy<Value = Op> {
    let (tenant, id, len) = (0..8usize, 0..PAGES, 1..80u32);
    prop_oneof![
        2 => (0..8usize).prop_map(|parent| Op::Create { parent }),
        1 => tenant.clone().prop_map(|tenant| Op::Offline { tenant }),
        6 => (tenant.clone(), id.clone(), len.clone()).prop_map(|(tenant, id, len)| Op::Fault { tenant, id, len }),
        3 => (tenant.clone(), id.clone(), len.clone()).prop_map(|(tenant, id, len)| Op::Touch { tenant, id, len }),
        2 => (tenant.clone(), id, len).prop_map(|(tenant, id, len)| Op::Unmap { tenant, id, len }),
        1 => (tenant.clone(), 40..300u64).prop_map(|(tenant, pages)| Op::Max { tenant, pages }),
        1 => (tenant.clone(), 0..80u64).prop_map(|(tenant, pages)| Op::Min { tenant, pages }),
        1 => (tenant.clone(), 0..200u64).prop_map(|(tenant, pages)| Op::SwapMax { tenant, pages }),
        1 => (tenant.clone(), 0..200u64).prop_map(|(tenant, pages)| Op::Soft { tenant, pages }),
        4 => (tenant, 1..120u64).prop_map(|(tenant, nr)| Op::Reclaim { tenant, nr }),
    ]
}

/// A memory in which page-out of every seventh page fails.
struct Plain;

impl Memory for Plain {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        // Page-out of every seventh page fails as busy.
        let busy = |id: &FolioId| id.0 % 7 == 3;
        outcome.extend(batch.iter().map(|id| {
            if busy(id) {
                PageOut::Busy
            } else {
                PageOut::Stored
            }
        }));
    }
}

/// The model of one tenant.
#[derive(Clone, Default)]
struct Tenant {
    parent: Option<usize>,
    released: bool,
    online: bool,
    present: BTreeSet<u32>,
    swapped: BTreeSet<u32>,
}

/// The machine and its model, to which the same operations are applied.
struct Pair {
    machine: Machine,
    ids: Vec<MemcgId>,
    model: Vec<Tenant>,
    now: u64,
}

impl Pair {
    fn new(charge_batch: u64, policy: Policy) -> Self {
        let config = MachineConfig {
            policy,
            memcg_profile: MemcgProfile::Newer,
            charge_batch,
            ..MachineConfig::default()
        };
        let root = Tenant {
            online: true,
            ..Tenant::default()
        };
        Self {
            machine: Machine::new(config, Millis(0)),
            ids: vec![MemcgId::ROOT],
            model: vec![root],
            now: 0,
        }
    }

    /// Returns the tenant with this number if it is online, else the root.
    fn alive(&self, tenant: usize) -> usize {
        let tenant = tenant % self.model.len();
        if self.model[tenant].released || !self.model[tenant].online {
            0
        } else {
            tenant
        }
    }

    /// Changes the limits of a tenant.
    fn limits(&mut self, tenant: usize, change: impl FnOnce(&mut MemcgLimits)) {
        let id = self.ids[tenant];
        let mut limits = self.machine.tree().get(id).limits();
        change(&mut limits);
        self.machine.set_limits(id, limits);
    }

    /// Applies an operation to the machine and to the model.
    fn apply(&mut self, op: &Op) {
        self.now += 1;
        match *op {
            Op::Create { parent } if self.model.iter().filter(|t| !t.released).count() < 8 => {
                let parent = self.alive(parent);
                let id = self.machine.create(self.ids[parent], Millis(self.now));
                self.machine.lruvec_mut(id).ensure(PAGES as usize);
                self.ids.push(id);
                self.model.push(Tenant {
                    parent: Some(parent),
                    online: true,
                    ..Tenant::default()
                });
            }
            Op::Create { .. } => {}
            Op::Offline { tenant } => self.offline(tenant),
            Op::Fault { tenant, id, len } => self.fault(tenant, id, len),
            Op::Touch { tenant, id, len } => {
                let tenant = self.alive(tenant);
                for id in id..(id + len).min(PAGES) {
                    let is_present = self.machine.lruvec_mut(self.ids[tenant]).touch(FolioId(id));
                    assert_eq!(is_present, self.model[tenant].present.contains(&id));
                }
            }
            Op::Unmap { tenant, id, len } => {
                let tenant = self.alive(tenant);
                self.machine
                    .unmap_range(self.ids[tenant], FolioId(id), len as usize);
                for id in id..id + len {
                    self.model[tenant].present.remove(&id);
                    self.model[tenant].swapped.remove(&id);
                }
            }
            Op::Max { tenant, pages } => {
                let tenant = self.alive(tenant);
                self.limits(tenant, |l| l.max = Limit::of(Pages(pages)));
            }
            Op::Min { tenant, pages } => {
                let tenant = self.alive(tenant);
                self.limits(tenant, |l| l.min = Pages(pages));
            }
            Op::SwapMax { tenant, pages } => {
                let tenant = self.alive(tenant);
                self.limits(tenant, |l| l.swap_max = Limit::of(Pages(pages)));
            }
            Op::Soft { tenant, pages } => {
                let tenant = self.alive(tenant);
                self.limits(tenant, |l| l.soft = Limit::of(Pages(pages)));
            }
            Op::Reclaim { tenant, nr } => self.reclaim(tenant, nr),
        }
        self.update_model();
        self.compare();
    }

    /// Takes a tenant offline, unless it is the root or has children.
    fn offline(&mut self, tenant: usize) {
        let tenant = self.alive(tenant);
        let is_parent = |t: &Tenant| t.parent == Some(tenant) && !t.released;
        if tenant != 0 && !self.model.iter().any(is_parent) {
            self.machine.offline(self.ids[tenant]);
            self.model[tenant].online = false;
        }
    }

    fn fault(&mut self, tenant: usize, id: u32, len: u32) {
        let tenant = self.alive(tenant);
        if tenant == 0 {
            return;
        }
        for id in id..(id + len).min(PAGES) {
            if self.model[tenant].present.contains(&id) {
                continue;
            }
            let now = Millis(self.now);
            let result = self
                .machine
                .make_room(self.ids[tenant], Pages(1), now, &mut Plain);
            self.update_model();
            if result.is_err() {
                break;
            }
            let ty = FolioType::Anon;
            self.machine
                .fault_in(self.ids[tenant], FolioId(id), ty, FaultKind::Refault, true);
            self.model[tenant].swapped.remove(&id);
            self.model[tenant].present.insert(id);
            let mut at = Some(tenant);
            while let Some(level) = at {
                let memcg = self.machine.tree().get(self.ids[level]);
                assert!(memcg.usage() <= memcg.limits().max.pages(), "over max");
                at = self.model[level].parent;
            }
        }
    }

    /// Reclaims `nr` pages from `tenant`. Checks that the only child of `tenant` loses no page if
    /// its memory.min covers its whole usage.
    fn reclaim(&mut self, tenant: usize, nr: u64) {
        let tenant = self.alive(tenant);
        let protected: Vec<(usize, u64)> = (0..self.model.len())
            .filter(|&n| self.model[n].parent == Some(tenant) && !self.model[n].released)
            .map(|n| (n, self.machine.tree().get(self.ids[n])))
            .filter(|(_, memcg)| memcg.limits().min >= memcg.usage())
            .map(|(n, _)| (n, self.resident_below(n)))
            .collect();
        let all: u64 = protected
            .iter()
            .map(|&(n, _)| self.machine.tree().get(self.ids[n]).limits().min.0)
            .sum();
        let usage = self.machine.tree().get(self.ids[tenant]).usage();
        let swapped = self.swapped();
        let request = ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(self.now));
        self.machine
            .reclaim_subtree(self.ids[tenant], request, &mut Plain);
        for ((n, before), (_, after)) in swapped.into_iter().zip(self.swapped()) {
            let memcg = self.machine.tree().get(self.ids[n]);
            assert!(after <= before.max(memcg.limits().swap_max.pages()));
        }
        self.update_model();
        for (n, before) in protected {
            // The effective protection of a tenant that is the only child of the target is its own
            // setting.
            let alone = (0..self.model.len())
                .filter(|&m| self.model[m].parent == Some(tenant))
                .count()
                == 1;
            if alone && all <= usage.0 {
                assert_eq!(self.resident_below(n), before, "below min");
            }
        }
    }

    /// Returns the number of resident pages of a tenant and of all tenants below it. (Its usage
    /// also counts pages charged in advance, which any tenant of the same worker may use.)
    fn resident_below(&self, n: usize) -> u64 {
        let all = (0..self.model.len()).filter(|&m| self.is_below(m, n) && !self.model[m].released);
        let resident = all.map(|m| self.machine.lruvec(self.ids[m]).resident().0);
        resident.sum()
    }

    /// Returns (tenant, number of its swapped-out pages) for all online tenants. No reclaim
    /// releases an online tenant.
    fn swapped(&self) -> Vec<(usize, Pages)> {
        let online = (0..self.model.len()).filter(|&n| self.model[n].online);
        online
            .map(|n| (n, self.machine.tree().get(self.ids[n]).swap_usage()))
            .collect()
    }

    /// Updates the model: reads from the engine which pages were evicted and which tenants were
    /// released.
    fn update_model(&mut self) {
        let machine = &self.machine;
        let live: BTreeSet<MemcgId> = machine
            .tree()
            .pre_order(MemcgId::ROOT)
            .into_iter()
            .collect();
        for (tenant, id) in self.model.iter_mut().zip(&self.ids) {
            if tenant.released {
                continue;
            }
            if !tenant.online && !live.contains(id) {
                assert!(tenant.present.is_empty(), "released with pages in memory");
                *tenant = Tenant {
                    parent: tenant.parent,
                    released: true,
                    ..Tenant::default()
                };
                continue;
            }
            let state = |page: &u32| machine.lruvec(*id).folios().get(FolioId(*page)).state();
            let evicted: Vec<u32> = tenant
                .present
                .iter()
                .copied()
                .filter(|p| state(p) == State::Shadow)
                .collect();
            for page in evicted {
                tenant.present.remove(&page);
                tenant.swapped.insert(page);
            }
        }
    }

    fn compare(&self) {
        self.machine.check_invariants();
        let mut sums = vec![[0u64; 2]; self.model.len()];
        for (n, tenant) in self.model.iter().enumerate() {
            let mut at = Some(n);
            while let Some(level) = at {
                sums[level][0] += tenant.present.len() as u64;
                sums[level][1] += tenant.swapped.len() as u64;
                at = self.model[level].parent;
            }
        }
        for (n, tenant) in self.model.iter().enumerate().filter(|(_, t)| !t.released) {
            let memcg = self.machine.tree().get(self.ids[n]);
            let stocked: u64 = (0..self.model.len())
                .filter(|&m| !self.model[m].released && self.is_below(m, n))
                .map(|m| self.machine.tree().stocked(self.ids[m]).0)
                .sum();
            let used = (memcg.usage().0 - stocked, memcg.swap_usage().0);
            assert_eq!(used, (sums[n][0], sums[n][1]), "tenant {n}");
            let lruvec = self.machine.lruvec(self.ids[n]);
            let present = tenant
                .present
                .iter()
                .all(|&p| lruvec.folios().get(FolioId(p)).is_present());
            assert!(
                present && lruvec.resident().0 == tenant.present.len() as u64,
                "tenant {n}"
            );
        }
    }

    /// Whether tenant `m` is `n` or below it.
    fn is_below(&self, mut m: usize, n: usize) -> bool {
        while m != n {
            let Some(parent) = self.model[m].parent else {
                return false;
            };
            m = parent;
        }
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn accounts_agree_with_the_model(
        batch in prop_oneof![Just(1u64), Just(64)],
        policy in prop_oneof![Just(Policy::default()), Just(CLASSIC)],
        ops in prop::collection::vec(ops(), 1..60),
    ) {
        let mut pair = Pair::new(batch, policy);
        for op in &ops {
            pair.apply(op);
        }
    }
}

/// Regression of the test above: it compared usage, and about one run in a hundred failed. When
/// another tenant uncharges pages, pages charged in advance for a protected tenant are uncharged,
/// too. So the usage of the protected tenant falls, although none of its pages was evicted.
#[test]
fn pages_charged_in_advance_belong_to_no_tenant() {
    let mut pair = Pair::new(64, Policy::default());
    let (tenant, id, len) = (3, 0, 1);
    for op in [
        Op::Create { parent: 0 },
        Op::Create { parent: 2 },
        Op::Create { parent: 1 },
        Op::Min { tenant, pages: 64 },
        Op::Fault { tenant: 1, id, len },
        Op::Fault { tenant, id, len },
        Op::Reclaim { tenant: 1, nr: 1 },
    ] {
        pair.apply(&op);
    }
}
