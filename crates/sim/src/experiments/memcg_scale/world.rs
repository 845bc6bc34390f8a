//! The machine of the memcg-scale experiment.

use super::REQUEST;
use crate::rng::Rng;
use crate::stats::number;
use engine::machine::{GlobalReclaim, ReclaimRequest};
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, ScanReason, Swappiness,
};
use std::time::Instant;

/// Pages of a tenant that works: the least of which the first priority scans any, and an eighth more,
/// so that what it gives in one reclaim does not make it too small.
const WORKING: u32 = 4096 + 512;
/// Pages of one that is idle: too few.
const IDLE: u32 = 64;
/// Reclaims before those that count: in its first, a fresh tenant only drops its empty generations.
const WARM_UP: u32 = 2;
/// What clears a cache: larger than any.
const CACHE: usize = 64 << 20;

/// What the caches hold when a reclaim begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// What the reclaim before and the tenants, getting their pages back, have left there.
    AsLeft,
    /// Nothing of tenants or engine.
    Cleared,
}

/// What one reclaim costs, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Memcgs visited.
    pub visited: f64,
    /// Of these visits, those that took no page.
    pub in_vain: f64,
    /// Memcgs visited by the reclaim that visited most: a mean alone hides that most reclaims visit few.
    pub most_visited: u64,
    /// Pages looked at.
    pub scanned: f64,
    /// Pages that left.
    pub reclaimed: f64,
    /// Microseconds, the median.
    pub median_us: f64,
}

impl Cost {
    /// What was looked at, all in all.
    #[must_use]
    pub const fn steps(&self) -> f64 {
        self.visited + self.scanned
    }
}

/// Remembers what left, so that it can come back.
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
    /// Visits that took something: pages of one visit follow each other.
    fn visits(&self) -> u64 {
        self.0.chunk_by(|one, next| one.0 == next.0).count() as u64
    }

    /// All of it comes back.
    pub(super) fn bring_back(&self, machine: &mut Machine) {
        for &(id, page) in &self.0 {
            machine.fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
        }
    }
}

/// A tenant with all its `pages` in, which have been through the one aging that a fresh tenant needs before it can give
/// anything.
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

/// Tenants, every second one idle.
pub struct World {
    machine: Machine,
    now: u64,
}

impl World {
    /// So many tenants.
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

    /// `nr` reclaims of 1,024 pages each in a row, after some that do not count.
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
                // As kswapd: by the hierarchy, direct reclaim would not walk all.
                reason: ScanReason::Background,
                nr: Pages(REQUEST),
                swappiness: None,
                now: Millis(self.now * 1000),
            };
            let (mut taken, start) = (Taken::default(), Instant::now());
            let got = match global {
                GlobalReclaim::MemcgLru => self.machine.reclaim_root(request, &mut taken),
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
            cost.visited += number(got.visited) / part;
            cost.in_vain += number(got.visited.saturating_sub(taken.visits())) / part;
            cost.most_visited = cost.most_visited.max(got.visited);
            cost.scanned += number(got.scanned) / part;
            cost.reclaimed += number(got.reclaimed.0) / part;
        }
        times.sort_by(f64::total_cmp);
        cost.median_us = times.get(times.len() / 2).copied().unwrap_or(0.0);
        cost
    }

    /// Asserts every invariant of the engine.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check(&self) {
        self.machine.check_invariants();
    }
}
