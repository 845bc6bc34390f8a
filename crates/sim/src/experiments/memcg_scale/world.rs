//! The simulated machine of the memcg-scale experiment, and the measurement of one reclaim.

use super::REQUEST;
use crate::rng::Rng;
use crate::stats::number;
use engine::machine::{GlobalReclaim, ReclaimRequest};
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, ScanReason, Swappiness,
};
use std::time::Instant;

/// Number of pages of a busy tenant. It is the smallest number that is scanned at the first
/// priority, and an eighth more, so that one reclaim does not make the tenant too small.
const WORKING: u32 = 4096 + 512;
/// Number of pages of an idle tenant: too few to be scanned.
const IDLE: u32 = 64;
/// Number of first reclaims that do not count: the first one only removes the empty generations
/// that a new tenant has.
const WARM_UP: u32 = 2;
/// Bytes that are written to clear the processor's caches: more than any cache has.
const CACHE: usize = 64 << 20;

/// Content of the processor's caches when a reclaim begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// Whatever data the previous reclaim and the tenants' refaults left there.
    AsLeft,
    /// No data of tenants or of the engine.
    Cleared,
}

/// Cost of one reclaim, averaged over all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Mean number of memcgs visited.
    pub visited: f64,
    /// Mean number of these visits that took no page.
    pub in_vain: f64,
    /// Maximum number of memcgs that one reclaim visited. The mean does not show it if most
    /// reclaims visit few.
    pub most_visited: u64,
    /// Mean number of pages scanned.
    pub scanned: f64,
    /// Mean number of pages evicted.
    pub reclaimed: f64,
    /// Median time of a reclaim, microseconds.
    pub median_us: f64,
}

impl Cost {
    /// Returns the steps: memcgs visited plus pages scanned.
    #[must_use]
    pub const fn steps(&self) -> f64 {
        self.visited + self.scanned
    }
}

/// A memory that records the evicted pages, so that they can be faulted in again.
#[derive(Default)]
pub(super) struct Taken(Vec<(MemcgId, FolioId)>);

impl Memory for Taken {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        self.0.extend(batch.iter().map(|&id| (memcg, id)));
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

impl Taken {
    /// Returns the number of visits that took at least one page. (The pages of one visit follow
    /// each other in the list.)
    fn visits(&self) -> u64 {
        self.0.chunk_by(|one, next| one.0 == next.0).count() as u64
    }

    /// Faults in all recorded pages again.
    pub(super) fn bring_back(&self, machine: &mut Machine) {
        for &(id, page) in &self.0 {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
        }
    }
}

/// Makes a tenant with all its `pages` in memory, and opens one more generation: before that, no
/// page of a new tenant can be evicted.
pub(super) fn arrive(machine: &mut Machine, pages: u32) -> MemcgId {
    let id = machine.create(MemcgId::ROOT, Millis(0));
    machine.lruvec_mut(id).ensure(pages as usize);
    for page in (0..pages).map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::FirstTouch, true);
    }
    let seq = machine.lruvec(id).lru_gen().max_seq();
    let lruvec = machine.lruvec_mut(id);
    lruvec.inc_max_seq(seq, Swappiness::default(), Millis(0));
    id
}

/// A machine with tenants, every second of which is idle.
pub struct World {
    machine: Machine,
    now: u64,
}

impl World {
    /// Makes a world with this number of tenants.
    #[must_use]
    pub fn new(tenants: u32, seed: u64) -> Self {
        let config = MachineConfig {
            seed: Rng::stream(seed, 0).next_u64(),
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        for n in 0..tenants {
            arrive(&mut machine, if n % 2 == 0 { WORKING } else { IDLE });
        }
        Self { machine, now: 0 }
    }

    /// Runs `WARM_UP` reclaims that do not count, then `nr` reclaims of 1,024 pages, one after
    /// the other. Returns the cost of the latter.
    pub fn measure(&mut self, global: GlobalReclaim, caches: Caches, nr: u32) -> Cost {
        let (mut cost, mut times) = (Cost::default(), Vec::new());
        let mut cache = match caches {
            Caches::AsLeft => Vec::new(),
            Caches::Cleared => vec![0u8; CACHE],
        };
        let part = f64::from(nr);
        for n in 0..WARM_UP + nr {
            self.now += 1;
            cache
                .iter_mut()
                .step_by(64)
                .for_each(|byte| *byte = byte.wrapping_add(1));
            std::hint::black_box(&mut cache);
            let request = ReclaimRequest {
                // As in kswapd: direct reclaim over the hierarchy would not visit all tenants.
                reason: ScanReason::Background,
                nr: Pages(REQUEST),
                swappiness: None,
                now: Millis(self.now * 1000),
            };
            let (mut taken, start) = (Taken::default(), Instant::now());
            let result = match global {
                GlobalReclaim::MemcgLru => self.machine.reclaim_root(request, &mut taken),
                GlobalReclaim::HeatLevel => self.machine.reclaim_by_heat(request, &mut taken),
                GlobalReclaim::Iterator => {
                    let root = MemcgId::ROOT;
                    self.machine.reclaim_subtree(root, request, &mut taken)
                }
            };
            let micros = start.elapsed().as_secs_f64() * 1e6;
            taken.bring_back(&mut self.machine);
            if n < WARM_UP {
                continue;
            }
            times.push(micros);
            cost.visited += number(result.visited) / part;
            cost.in_vain += number(result.visited.saturating_sub(taken.visits())) / part;
            cost.most_visited = cost.most_visited.max(result.visited);
            cost.scanned += number(result.scanned) / part;
            cost.reclaimed += number(result.reclaimed.0) / part;
        }
        times.sort_by(f64::total_cmp);
        cost.median_us = times.get(times.len() / 2).copied().unwrap_or(0.0);
        cost
    }

    /// Asserts every invariant of the engine.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check(&self) {
        self.machine.check_invariants();
    }
}
