//! Compares reclaim of the root by heat levels with a simple model under random operations: after
//! each step of a walk, the visited memcg and the heat of all memcgs must be equal.
//! spec: heat-level.md 7, test 10.
//!
//! The model reads from the engine how many pages each memcg has, and the result of each visit. It
//! decides by itself which memcg is next, whether it is skipped, and how hot it is.
#![forbid(unsafe_code)]

use engine::machine::{GlobalReclaim, Machine, MachineConfig, ReclaimRequest};
use engine::memcg::{MemcgId, MemcgLimits};
use engine::vmscan::Shrunk;
use engine::vmstat::VmEvent;
use engine::{FaultKind, FolioId, FolioType, Lruvec, Memory, Millis, PageOut, Pages, ScanReason};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Number of page ids of each tenant.
const PAGES: u32 = 300;
/// Maximum number of tenants.
const TENANTS: usize = 6;

#[derive(Clone, Debug)]
enum Op {
    Create,
    Offline { tenant: usize },
    Fault { tenant: usize, id: u32, len: u32 },
    Touch { tenant: usize, id: u32, len: u32 },
    Age { tenant: usize },
    Min { tenant: usize, pages: u64 },
    Low { tenant: usize, pages: u64 },
    Wait { ms: u64 },
    Reclaim { nr: u64, priority: u32 },
}

/// Random operations; the numbers before `=>` are their weights.
fn ops() -> impl Strategy<Value = Op> {
    let (tenant, id, len) = (0..TENANTS, 0..PAGES, 1..200u32);
    prop_oneof![
        2 => Just(Op::Create),
        1 => tenant.clone().prop_map(|tenant| Op::Offline { tenant }),
        8 => (tenant.clone(), id.clone(), len.clone()).prop_map(|(tenant, id, len)| Op::Fault { tenant, id, len }),
        2 => (tenant.clone(), id, len).prop_map(|(tenant, id, len)| Op::Touch { tenant, id, len }),
        2 => tenant.clone().prop_map(|tenant| Op::Age { tenant }),
        1 => (tenant.clone(), 0..200u64).prop_map(|(tenant, pages)| Op::Min { tenant, pages }),
        1 => (tenant, 0..200u64).prop_map(|(tenant, pages)| Op::Low { tenant, pages }),
        2 => prop_oneof![Just(1000u64), Just(1001), 1..4000u64].prop_map(|ms| Op::Wait { ms }),
        8 => (1..400u64, 0..7u32)
            .prop_map(|(nr, priority)| Op::Reclaim { nr, priority }),
    ]
}

/// A memory that pages out one in `id` pages of memcg `id`: all pages of memcg 1, half of those of
/// memcg 2, and so on.
struct PagesOutOneIn;

impl Memory for PagesOutOneIn {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|id| match id.0 % memcg.0.max(1) {
            0 => PageOut::Stored,
            _ => PageOut::Busy,
        }));
    }
}

/// The model of one memcg.
#[derive(Clone, Copy, Debug)]
struct Tenant {
    heat: i64,
    decayed: u64,
    refaults: u64,
    min: u64,
    low: u64,
}

impl Tenant {
    const fn new(now: u64) -> Self {
        Self {
            heat: 0,
            decayed: now,
            refaults: 0,
            min: 0,
            low: 0,
        }
    }

    fn decay(&mut self, now: u64) {
        if now > self.decayed + 1000 {
            self.decayed = now;
            self.heat = (self.heat - 1).max(0);
        }
    }

    fn visited(&mut self, (tried, reclaimed, refaults): (u64, u64, u64), now: u64) {
        self.decay(now);
        let mut change = if tried == 0 {
            12
        } else if reclaimed as f64 >= tried as f64 / 2.0 {
            -2
        } else if reclaimed as f64 >= tried as f64 / 4.0 {
            -1
        } else {
            1
        };
        let since = refaults - self.refaults;
        self.refaults = refaults;
        if since > reclaimed {
            change += 1;
        } else if since == 0 && change > 0 {
            change -= 1;
        }
        self.heat = (self.heat + change).clamp(0, 12);
    }
}

/// The machine and its model, to which the same operations are applied.
struct Pair {
    machine: Machine,
    model: BTreeMap<MemcgId, Tenant>,
    /// The last memcg that the shared walk visited; `None` before the root.
    at: Option<MemcgId>,
    now: u64,
}

impl Pair {
    fn new() -> Self {
        let config = MachineConfig {
            global: GlobalReclaim::HeatLevel,
            ..MachineConfig::default()
        };
        Self {
            machine: Machine::new(config, Millis(0)),
            model: BTreeMap::from([(MemcgId::ROOT, Tenant::new(0))]),
            at: None,
            now: 0,
        }
    }

    /// Returns the online tenant with this number (modulo their count); `None` if no tenant is
    /// online.
    fn memcg_of(&self, tenant: usize) -> Option<MemcgId> {
        let ids = self
            .model
            .keys()
            .filter(|id| self.machine.tree().is_online(**id));
        let ids: Vec<_> = ids.filter(|id| **id != MemcgId::ROOT).collect();
        ids.get(tenant % ids.len().max(1)).map(|id| **id)
    }

    fn resident(&self, id: MemcgId) -> u64 {
        self.machine.lruvec(id).resident().0
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Create if self.model.len() <= TENANTS => {
                let id = self.machine.create(MemcgId::ROOT, Millis(self.now));
                self.machine.lruvec_mut(id).ensure(PAGES as usize);
                assert!(self.model.insert(id, Tenant::new(self.now)).is_none());
            }
            Op::Create => {}
            Op::Wait { ms } => self.now += ms,
            Op::Reclaim { nr, priority } => self.reclaim(nr, priority),
            Op::Offline { tenant }
            | Op::Fault { tenant, .. }
            | Op::Touch { tenant, .. }
            | Op::Age { tenant }
            | Op::Min { tenant, .. }
            | Op::Low { tenant, .. } => {
                if let Some(id) = self.memcg_of(tenant) {
                    self.apply_to(id, op);
                }
            }
        }
        self.compare();
        self.machine.check_invariants();
    }

    fn apply_to(&mut self, id: MemcgId, op: &Op) {
        match *op {
            Op::Offline { .. } => {
                let before = self.before(id);
                self.machine.offline(id);
                if let Some(tenant) = self.model.get_mut(&id) {
                    (tenant.min, tenant.low) = (0, 0);
                }
                self.forget_released(before);
            }
            Op::Fault { id: first, len, .. } => {
                for page in (first..(first + len).min(PAGES)).map(FolioId) {
                    if !self.machine.lruvec(id).folios().get(page).is_present() {
                        let kind = FaultKind::Refault;
                        self.machine.fault_in(id, page, FolioType::Anon, kind, true);
                    }
                }
            }
            Op::Touch { id: first, len, .. } => {
                for page in (first..(first + len).min(PAGES)).map(FolioId) {
                    self.machine.lruvec_mut(id).touch(page);
                }
            }
            Op::Age { .. } => self.machine.age(id, Millis(self.now)),
            Op::Min { pages, .. } => self.protect(id, |tenant| tenant.min = pages),
            Op::Low { pages, .. } => self.protect(id, |tenant| tenant.low = pages),
            Op::Create | Op::Wait { .. } | Op::Reclaim { .. } => unreachable!("of no tenant"),
        }
    }

    fn protect(&mut self, id: MemcgId, change: impl Fn(&mut Tenant)) {
        let tenant = self.model.get_mut(&id).expect("a known memcg");
        change(tenant);
        let limits = MemcgLimits {
            min: Pages(tenant.min),
            low: Pages(tenant.low),
            ..MemcgLimits::default()
        };
        self.machine.set_limits(id, limits);
    }

    /// Returns `id` and the memcg before it in the order of walks.
    fn before(&self, id: MemcgId) -> (MemcgId, Option<MemcgId>) {
        let order = self.machine.tree().pre_order(MemcgId::ROOT);
        let at = order.iter().position(|other| *other == id);
        (id, at.and_then(|at| order.get(at.wrapping_sub(1))).copied())
    }

    fn forget_released(&mut self, (id, before): (MemcgId, Option<MemcgId>)) {
        if self.machine.tree().exists(id) {
            return;
        }
        self.model.remove(&id);
        if self.at == Some(id) {
            self.at = before;
        }
    }

    /// Makes one walk at one priority, and compares each step with that of the model.
    fn reclaim(&mut self, nr: u64, priority: u32) {
        let request = ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(self.now));
        let mut reclaimer = self.machine.reclaimer(MemcgId::ROOT, request, priority);
        let (mut level, mut total) = (0, Shrunk::default());
        let (mut round, mut has_hotter) = (self.round(), false);
        loop {
            let is_enough = total.reclaimed.0 >= nr && total.visited > 0;
            let is_here = |id: &MemcgId| self.machine.tree().exists(*id);
            round.retain(is_here);
            while round.is_empty() && !is_enough && has_hotter && level < 8 {
                self.at = None;
                (level, has_hotter, round) = (level + 4, false, self.round());
            }
            let expect = if is_enough { None } else { round.pop() };
            if !is_enough && expect.is_none() {
                self.at = None;
            }
            let before = expect.map(|id| (self.before(id), self.resident(id)));
            let actual = self.machine.step(&mut reclaimer, &mut PagesOutOneIn);
            assert_eq!(actual, expect, "the next memcg of round {level}");
            let (Some(id), Some((before, resident))) = (actual, before) else {
                break;
            };
            self.at = Some(id);
            let result = reclaimer.got();
            let tried = |of: &Shrunk| of.reclaimed.0 + of.forgotten.0 + of.kept.total();
            let counts = (
                tried(&result) - tried(&total),
                result.reclaimed.0 - total.reclaimed.0,
            );
            total = result;
            has_hotter |= self.visit(id, (counts, resident), (level, priority));
            self.forget_released(before);
            self.compare();
        }
        let all = self.machine.finish(reclaimer);
        assert_eq!(all.reclaimed, total.reclaimed);
    }

    /// Returns the memcgs of a round, the last first: those from the shared position to the end of
    /// the traversal, or all of them if the position is at the end.
    fn round(&self) -> Vec<MemcgId> {
        let order = self.machine.tree().pre_order(MemcgId::ROOT);
        let at = self
            .at
            .and_then(|at| order.iter().position(|other| *other == at));
        let mut memcgs = order[at.map_or(0, |at| at + 1)..].to_vec();
        if memcgs.is_empty() {
            memcgs = order;
        }
        memcgs.reverse();
        memcgs
    }

    /// Updates the model by a visit of `id`. Returns whether the memcg was too hot for the round.
    fn visit(
        &mut self,
        id: MemcgId,
        ((tried, reclaimed), resident): ((u64, u64), u64),
        (level, priority): (i64, u32),
    ) -> bool {
        let is_online = self.machine.tree().exists(id) && self.machine.tree().is_online(id);
        let refaults = match self.machine.tree().exists(id) {
            true => self
                .machine
                .lruvec(id)
                .stat()
                .get(VmEvent::WorkingsetActivateAnon),
            false => 0,
        };
        let now = self.now;
        let tenant = self.model.get_mut(&id).expect("a known memcg");
        let is_root = id == MemcgId::ROOT;
        if !is_root && (tenant.min >= resident || tenant.low >= resident) {
            assert_eq!((tried, reclaimed), (0, 0), "{id:?} is protected");
            return false;
        }
        if !is_root {
            tenant.decay(now);
        }
        let is_too_hot = tenant.heat >= level + 4 && level < 8;
        let is_small = resident >> (if is_online { priority } else { 0 }) == 0;
        if is_too_hot || is_small {
            assert_eq!(
                (tried, reclaimed),
                (0, 0),
                "{id:?}: hot {is_too_hot}, small {is_small}"
            );
        } else if !is_root && self.machine.tree().exists(id) {
            tenant.visited((tried, reclaimed, refaults), now);
        }
        is_too_hot
    }

    fn compare(&self) {
        for (&id, tenant) in &self.model {
            let heat = i64::from(self.machine.memcg_heat().heat(id));
            assert_eq!(heat, tenant.heat, "heat of {id:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn walks_and_heat_are_those_of_the_model(ops in prop::collection::vec(ops(), 20..60)) {
        let mut pair = Pair::new();
        for _ in 0..3 {
            pair.apply(&Op::Create);
        }
        for op in &ops {
            pair.apply(op);
        }
    }
}
