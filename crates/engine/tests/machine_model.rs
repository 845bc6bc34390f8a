//! A tree of tenants under random operations, compared with the simplest model of their charges.
//!
//! The model has a set of pages in memory and a set of swapped-out pages for each tenant, and sums
//! them anew after each operation. It reads from the engine which pages a reclaim took; everything
//! that follows from that is checked.
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
    Offline { who: usize },
    Fault { who: usize, id: u32, len: u32 },
    Touch { who: usize, id: u32, len: u32 },
    Unmap { who: usize, id: u32, len: u32 },
    Max { who: usize, pages: u64 },
    Min { who: usize, pages: u64 },
    SwapMax { who: usize, pages: u64 },
    Soft { who: usize, pages: u64 },
    Reclaim { who: usize, nr: u64 },
}

/// Random operations; the numbers before `=>` are their weights.
fn ops() -> impl Strategy<Value = Op> {
    let (who, id, len) = (0..8usize, 0..PAGES, 1..80u32);
    prop_oneof![
        2 => (0..8usize).prop_map(|parent| Op::Create { parent }),
        1 => who.clone().prop_map(|who| Op::Offline { who }),
        6 => (who.clone(), id.clone(), len.clone()).prop_map(|(who, id, len)| Op::Fault { who, id, len }),
        3 => (who.clone(), id.clone(), len.clone()).prop_map(|(who, id, len)| Op::Touch { who, id, len }),
        2 => (who.clone(), id, len).prop_map(|(who, id, len)| Op::Unmap { who, id, len }),
        1 => (who.clone(), 40..300u64).prop_map(|(who, pages)| Op::Max { who, pages }),
        1 => (who.clone(), 0..80u64).prop_map(|(who, pages)| Op::Min { who, pages }),
        1 => (who.clone(), 0..200u64).prop_map(|(who, pages)| Op::SwapMax { who, pages }),
        1 => (who.clone(), 0..200u64).prop_map(|(who, pages)| Op::Soft { who, pages }),
        4 => (who, 1..120u64).prop_map(|(who, nr)| Op::Reclaim { who, nr }),
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
    out: BTreeSet<u32>,
}

/// The machine and its model, which get the same operations.
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

    /// The tenant with this number if it is online, else the root.
    fn alive(&self, who: usize) -> usize {
        let who = who % self.model.len();
        if self.model[who].released || !self.model[who].online {
            0
        } else {
            who
        }
    }

    /// Changes the limits of a tenant.
    fn limits(&mut self, who: usize, change: impl FnOnce(&mut MemcgLimits)) {
        let id = self.ids[who];
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
            Op::Offline { who } => self.offline(who),
            Op::Fault { who, id, len } => self.fault(who, id, len),
            Op::Touch { who, id, len } => {
                let who = self.alive(who);
                for id in id..(id + len).min(PAGES) {
                    let there = self.machine.lruvec_mut(self.ids[who]).touch(FolioId(id));
                    assert_eq!(there, self.model[who].present.contains(&id));
                }
            }
            Op::Unmap { who, id, len } => {
                let who = self.alive(who);
                self.machine
                    .unmap_range(self.ids[who], FolioId(id), len as usize);
                for id in id..id + len {
                    self.model[who].present.remove(&id);
                    self.model[who].out.remove(&id);
                }
            }
            Op::Max { who, pages } => {
                let who = self.alive(who);
                self.limits(who, |l| l.max = Limit::of(Pages(pages)));
            }
            Op::Min { who, pages } => {
                let who = self.alive(who);
                self.limits(who, |l| l.min = Pages(pages));
            }
            Op::SwapMax { who, pages } => {
                let who = self.alive(who);
                self.limits(who, |l| l.swap_max = Limit::of(Pages(pages)));
            }
            Op::Soft { who, pages } => {
                let who = self.alive(who);
                self.limits(who, |l| l.soft = Limit::of(Pages(pages)));
            }
            Op::Reclaim { who, nr } => self.reclaim(who, nr),
        }
        self.follow();
        self.compare();
    }

    /// Takes a tenant offline, unless it is the root or has children.
    fn offline(&mut self, who: usize) {
        let who = self.alive(who);
        let is_parent = |t: &Tenant| t.parent == Some(who) && !t.released;
        if who != 0 && !self.model.iter().any(is_parent) {
            self.machine.offline(self.ids[who]);
            self.model[who].online = false;
        }
    }

    fn fault(&mut self, who: usize, id: u32, len: u32) {
        let who = self.alive(who);
        if who == 0 {
            return;
        }
        for id in id..(id + len).min(PAGES) {
            if self.model[who].present.contains(&id) {
                continue;
            }
            let now = Millis(self.now);
            let room = self
                .machine
                .make_room(self.ids[who], Pages(1), now, &mut Plain);
            self.follow();
            if room.is_err() {
                break;
            }
            let ty = FolioType::Anon;
            self.machine
                .fault_in(self.ids[who], FolioId(id), ty, FaultKind::Refault, true);
            self.model[who].out.remove(&id);
            self.model[who].present.insert(id);
            let mut at = Some(who);
            while let Some(level) = at {
                let memcg = self.machine.tree().get(self.ids[level]);
                assert!(memcg.usage() <= memcg.limits().max.pages(), "over max");
                at = self.model[level].parent;
            }
        }
    }

    /// Reclaims `nr` pages from the tenant `who`. Checks that the only child of `who` loses no page
    /// if its min covers its whole usage.
    fn reclaim(&mut self, who: usize, nr: u64) {
        let who = self.alive(who);
        let covered: Vec<(usize, u64)> = (0..self.model.len())
            .filter(|&n| self.model[n].parent == Some(who) && !self.model[n].released)
            .map(|n| (n, self.machine.tree().get(self.ids[n])))
            .filter(|(_, memcg)| memcg.limits().min >= memcg.usage())
            .map(|(n, _)| (n, self.resident_below(n)))
            .collect();
        let all: u64 = covered
            .iter()
            .map(|&(n, _)| self.machine.tree().get(self.ids[n]).limits().min.0)
            .sum();
        let usage = self.machine.tree().get(self.ids[who]).usage();
        let swapped = self.swapped();
        let request = ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(self.now));
        self.machine
            .reclaim_subtree(self.ids[who], request, &mut Plain);
        for ((n, before), (_, after)) in swapped.into_iter().zip(self.swapped()) {
            let memcg = self.machine.tree().get(self.ids[n]);
            assert!(after <= before.max(memcg.limits().swap_max.pages()));
        }
        self.follow();
        for (n, before) in covered {
            // For the only tenant directly below the target, the effective protection is its own
            // setting.
            let alone = (0..self.model.len())
                .filter(|&m| self.model[m].parent == Some(who))
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
        let there = (0..self.model.len()).filter(|&n| self.model[n].online);
        there
            .map(|n| (n, self.machine.tree().get(self.ids[n]).swap_usage()))
            .collect()
    }

    /// Reads from the engine which pages were evicted, and which tenants were released.
    fn follow(&mut self) {
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
            let gone: Vec<u32> = tenant
                .present
                .iter()
                .copied()
                .filter(|p| state(p) == State::Shadow)
                .collect();
            for page in gone {
                tenant.present.remove(&page);
                tenant.out.insert(page);
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
                sums[level][1] += tenant.out.len() as u64;
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

    /// Whether the tenant `m` is `n` or below it.
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

/// Regression (of this test): it compared usage, and about one run in a hundred failed. When
/// another tenant uncharges pages, pages charged in advance for a protected tenant are uncharged,
/// too, so its usage falls though none of its pages was evicted.
#[test]
fn pages_charged_in_advance_belong_to_no_tenant() {
    let mut pair = Pair::new(64, Policy::default());
    let (who, id, len) = (3, 0, 1);
    for op in [
        Op::Create { parent: 0 },
        Op::Create { parent: 2 },
        Op::Create { parent: 1 },
        Op::Min { who, pages: 64 },
        Op::Fault { who: 1, id, len },
        Op::Fault { who, id, len },
        Op::Reclaim { who: 1, nr: 1 },
    ] {
        pair.apply(&op);
    }
}
