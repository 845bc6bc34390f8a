//! Measures how many memcgs a reclaim visits to find 1,024 pages, by the size of the tenants (1 to
//! 64 MiB), for busy and for idle tenants.
//!
//! The first priority of a pass follows from the node's pages (memcg-lru.md 6). A tenant of fewer
//! than 2^priority pages gives no page: reclaim visits it, moves it to the tail, visits it again
//! and makes it young. Only when this has happened to all tenants does the priority fall. This rule
//! of the kernel makes the number of visits jump at some size (the cliff).
//!
//! Invariant: the engine counts the visits; this file computes where the cliff is expected, only
//! from the tenants' sizes and that rule.

use super::REQUEST;
use super::world::{Taken, arrive};
use crate::rng::Rng;
use crate::stats::number;
use engine::lru_gen::DEF_PRIORITY;
use engine::machine::{GlobalReclaim, ReclaimRequest};
use engine::{FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis, Pages, ScanReason};

/// Sizes of a tenant, MiB.
pub(super) const SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Number of first reclaims that do not count: the first one only removes the empty generations
/// that a new tenant has.
const WARM_UP: u64 = 2;
/// Maximum number of reclaims that count. Together they take at most an eighth of the pages of idle
/// tenants.
const RECLAIMS: u64 = 30;
/// Between two reclaims, a busy tenant touches one in `TOUCHED` of its pages, at random.
const TOUCHED: u32 = 64;

/// Whether tenants touch their pages between two reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// They touch their pages, so the reclaimed pages refault.
    Busy,
    /// They touch nothing, so the reclaimed pages do not refault.
    Idle,
}

/// One measurement: a number of tenants of the same size, and the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) tenants: u32,
    pub(super) mib: u32,
    pub(super) used: Use,
    /// Mean number of memcgs visited by a reclaim.
    pub(super) visited: f64,
    /// Mean number of pages that a reclaim took.
    pub(super) reclaimed: f64,
    /// First priority of the last reclaim, computed by the rule.
    pub(super) priority: u32,
}

impl Point {
    /// Returns whether, by the rule, all tenants are too small to be scanned at the first priority.
    pub(super) const fn is_beyond_cliff(&self) -> bool {
        pages_of(self.mib) >> self.priority == 0
    }
}

const fn pages_of(mib: u32) -> u32 {
    mib * 256
}

/// Returns the first priority of a reclaim of the whole node. spec: memcg-lru.md 6.
pub(super) fn first_priority(inactive: u64) -> u32 {
    let fls = |n: u64| u64::BITS - n.leading_zeros();
    let priority = fls(inactive).saturating_sub(1 + fls(REQUEST - 1));
    priority.clamp(DEF_PRIORITY / 2, DEF_PRIORITY)
}

/// A machine with tenants of the same size.
struct World {
    machine: Machine,
    tenants: Vec<MemcgId>,
    pages: u32,
    rng: Rng,
}

impl World {
    fn new(tenants: u32, mib: u32, seed: u64) -> Self {
        let config = MachineConfig {
            seed: Rng::stream(seed, 0).next_u64(),
            global: GlobalReclaim::MemcgLru,
            ..MachineConfig::default()
        };
        let (mut machine, pages) = (Machine::new(config, Millis(0)), pages_of(mib));
        let tenants = (0..tenants).map(|_| arrive(&mut machine, pages)).collect();
        Self {
            machine,
            tenants,
            pages,
            rng: Rng::stream(seed, 5),
        }
    }

    fn inactive(&self) -> u64 {
        let of = |&id: &MemcgId| self.machine.lruvec(id).active_inactive(FolioType::Anon).1.0;
        self.tenants.iter().map(of).sum()
    }

    fn live(&mut self, taken: &Taken) {
        taken.bring_back(&mut self.machine);
        for &id in &self.tenants {
            let lruvec = self.machine.lruvec_mut(id);
            for _ in 0..self.pages / TOUCHED {
                lruvec.touch(FolioId(self.rng.below(self.pages)));
            }
        }
    }
}

/// Runs reclaims of 1,024 pages each, one after the other, and returns what they cost.
pub(super) fn measure((tenants, mib): (u32, u32), used: Use, seed: u64) -> Point {
    let mut world = World::new(tenants, mib, seed);
    let all = u64::from(tenants) * u64::from(world.pages);
    let reclaims = match used {
        Use::Busy => RECLAIMS,
        Use::Idle => (all / 8 / REQUEST).clamp(1, RECLAIMS),
    };
    let (mut visited, mut reclaimed, mut priority) = (0, 0, 0);
    for n in 0..WARM_UP + reclaims {
        priority = first_priority(world.inactive());
        let request = ReclaimRequest::new(
            ScanReason::Background,
            Pages(REQUEST),
            Millis((n + 1) * 1000),
        );
        let mut taken = Taken::default();
        let result = world.machine.reclaim_root(request, &mut taken);
        if used == Use::Busy {
            world.live(&taken);
        }
        if n >= WARM_UP {
            visited += result.visited;
            reclaimed += result.reclaimed.0;
        }
    }
    world.machine.check_invariants();
    Point {
        tenants,
        mib,
        used,
        visited: number(visited) / number(reclaims),
        reclaimed: number(reclaimed) / number(reclaims),
        priority,
    }
}
