//! Replays a trace on the engine, with one memory limit and simulated memory.
//!
//! A reference to an absent page faults. If the fault would exceed the limit, [`RECLAIM_BATCH`]
//! pages are reclaimed first, as for a charge in the kernel: they are isolated and paged out,
//! except that pages accessed since the last walk are put back. If no generation is old enough, the
//! engine walks and ages. A page fault sets the accessed bit, as hardware does when it repeats the
//! access.
//!
//! Invariant: after each reference, the resident pages are at most the limit. The run is
//! deterministic.

use super::Cache;
use crate::hardware;
use crate::in_words::InWords;
use engine::memcg::MemcgLimits;
use engine::{FaultKind, FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis, Policy};

const ONE: MemcgId = MemcgId::FIRST;

/// Number of pages that a fault at the limit reclaims: the kernel's SWAP_CLUSTER_MAX.
pub const RECLAIM_BATCH: usize = 32;

/// A run of the engine with one memory limit.
#[derive(Debug)]
pub struct EngineRun {
    machine: Machine,
    limit: u64,
    batch: usize,
    resident: u64,
    now: u64,
}

impl EngineRun {
    /// Makes a run with a limit of `limit` pages.
    #[must_use]
    pub fn new(policy: Policy, limit: u64) -> Self {
        Self::with_batch(policy, limit, RECLAIM_BATCH)
    }

    /// Makes a run that reclaims `batch` pages at a time.
    #[must_use]
    pub fn with_batch(policy: Policy, limit: u64, batch: usize) -> Self {
        let config = MachineConfig {
            policy,
            ..MachineConfig::default()
        };
        Self {
            machine: Machine::of_one(config, MemcgLimits::default(), Millis(0)),
            limit: limit.max(1),
            batch: batch.max(1),
            resident: 0,
            now: 0,
        }
    }

    fn fault(&mut self, id: FolioId) {
        let known = self.machine.lruvec(ONE).folios().len();
        if id.index() >= known {
            let len = (id.index() + 1).next_power_of_two();
            self.machine.lruvec_mut(ONE).ensure(len);
        }
        if self.resident >= self.limit {
            self.reclaim();
        }
        let first =
            self.machine.lruvec(ONE).folios().get(id).state() == engine::word::State::Absent;
        let kind = if first {
            FaultKind::FirstTouch
        } else {
            FaultKind::Refault
        };
        hardware::fault(&mut self.machine, (ONE, id), FolioType::Anon, kind, true);
        self.resident += 1;
    }

    /// Reclaims until at least one more page fits under the limit.
    fn reclaim(&mut self) {
        while self.resident >= self.limit {
            let (now, memory) = (Millis(self.now), &mut InWords);
            let done = self.machine.evict_coldest(ONE, self.batch, now, memory);
            self.resident = self.machine.lruvec(ONE).resident().0;
            if done.scanned == 0 && self.resident >= self.limit {
                self.now += 1;
                self.machine.walk_and_age(ONE, Millis(self.now), memory);
            }
        }
    }

    /// Returns the machine.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Cache for EngineRun {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let id = FolioId(id);
        if self.machine.lruvec_mut(ONE).touch(id) {
            return true;
        }
        self.fault(id);
        false
    }

    fn held(&self) -> u64 {
        self.resident
    }
}
