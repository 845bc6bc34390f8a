//! How many memcgs are visited to find 1,024 pages, by the size of the tenants: 1 to 64 MiB, busy and idle.
//!
//! The first priority of a pass follows from what the node holds (memcg-lru.md 6). A tenant of fewer pages
//! than 2^priority gives nothing: it is visited, put to the tail, visited again and made young, all of
//! them, before the priority falls. That is the kernel's own rule, and its cliff.
//!
//! Invariant: visits are counted by the engine; where the cliff is expected is computed here, from the
//! tenants' sizes and the rule alone.

use super::REQUEST;
use super::world::{Taken, arrive};
use crate::rng::Rng;
use crate::stats::number;
use engine::lru_gen::DEF_PRIORITY;
use engine::machine::{GlobalReclaim, ReclaimRequest};
use engine::{FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis, Pages, ScanReason};

/// Sizes of a tenant, MiB.
pub(super) const SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Reclaims that do not count: in its first, a fresh tenant only drops its empty generations.
const WARM_UP: u64 = 2;
/// Reclaims that count, at most: idle tenants give no more than an eighth of what they hold.
const RECLAIMS: u64 = 30;
/// A busy tenant touches this part of its pages, at random, between two reclaims.
const TOUCHED: u32 = 64;

/// What tenants do between two reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// They touch what they have, and what was taken comes back.
    Busy,
    /// Nothing; what was taken stays away.
    Idle,
}

/// So many tenants of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) tenants: u32,
    pub(super) mib: u32,
    pub(super) used: Use,
    /// Memcgs visited by a reclaim, on average.
    pub(super) visited: f64,
    /// Pages that it got.
    pub(super) reclaimed: f64,
    /// The first priority of the last reclaim, by the rule.
    pub(super) priority: u32,
}

impl Point {
    /// The rule's word: at the first priority no tenant is large enough to be scanned.
    pub(super) const fn is_beyond_cliff(&self) -> bool {
        pages_of(self.mib) >> self.priority == 0
    }
}

const fn pages_of(mib: u32) -> u32 {
    mib * 256
}

/// Where a reclaim of the whole node starts. spec: memcg-lru.md 6.
pub(super) fn first_priority(inactive: u64) -> u32 {
    let fls = |n: u64| u64::BITS - n.leading_zeros();
    let priority = fls(inactive).saturating_sub(1 + fls(REQUEST - 1));
    priority.clamp(DEF_PRIORITY / 2, DEF_PRIORITY)
}

/// Tenants of one size.
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

/// Reclaims in a row of 1,024 pages each.
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
        let request = ReclaimRequest {
            reason: ScanReason::Background,
            nr: Pages(REQUEST),
            swappiness: None,
            now: Millis((n + 1) * 1000),
        };
        let mut taken = Taken::default();
        let got = world.machine.reclaim_root(request, &mut taken);
        if used == Use::Busy {
            world.live(&taken);
        }
        if n >= WARM_UP {
            visited += got.visited;
            reclaimed += got.reclaimed.0;
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
