//! The engine at one limit, on simulated memory, driven by a trace.
//!
//! A page that is not there faults. Before a fault would exceed the limit, [`RECLAIM_BATCH`] pages
//! are reclaimed as for a charge: isolate, page out (what was accessed since the last walk comes
//! back), settle; when no generation is old enough, walk and age. A page fault leaves the accessed
//! bit set, as the hardware does when the access is made again.
//!
//! Invariant: no more than the limit is resident after any reference. Deterministic.

use super::Cache;
use engine::{
    Engine, EngineConfig, FaultKind, FolioId, FolioType, Millis, PageOut, Policy, ScanReason,
};

/// Pages that one fault at the limit reclaims: the kernel's SWAP_CLUSTER_MAX.
pub const RECLAIM_BATCH: usize = 32;

/// A run.
#[derive(Debug)]
pub struct EngineRun {
    engine: Engine,
    limit: u64,
    batch: usize,
    isolated: Vec<FolioId>,
    resident: u64,
    now: u64,
}

impl EngineRun {
    /// At `limit` pages.
    #[must_use]
    pub fn new(policy: Policy, limit: u64) -> Self {
        Self::with_batch(policy, limit, RECLAIM_BATCH)
    }

    /// Reclaiming `batch` pages at a time.
    #[must_use]
    pub fn with_batch(policy: Policy, limit: u64, batch: usize) -> Self {
        let config = EngineConfig {
            policy,
            ..EngineConfig::default()
        };
        Self {
            engine: Engine::new(config, Millis(0)),
            limit: limit.max(1),
            batch: batch.max(1),
            isolated: Vec::new(),
            resident: 0,
            now: 0,
        }
    }

    fn fault(&mut self, id: FolioId) {
        let known = self.engine.lruvec().folios().len();
        if id.index() >= known {
            self.engine.ensure((id.index() + 1).next_power_of_two());
        }
        if self.resident >= self.limit {
            self.reclaim();
        }
        let first = self.engine.lruvec().folios().get(id).state() == engine::word::State::Absent;
        let kind = if first {
            FaultKind::FirstTouch
        } else {
            FaultKind::Refault
        };
        self.engine.fault_in(id, FolioType::Anon, kind, true);
        self.engine.lruvec_mut().touch(id);
        self.resident += 1;
    }

    /// Makes room for one page at least.
    fn reclaim(&mut self) {
        while self.resident >= self.limit {
            self.isolated.clear();
            let reason = ScanReason::Direct;
            let done = self.engine.isolate(self.batch, reason, &mut self.isolated);
            for &id in &self.isolated {
                let accessed = self.engine.lruvec().folios().is_accessed(id);
                let outcome = if accessed {
                    PageOut::Referenced
                } else {
                    PageOut::Stored
                };
                self.engine.settle(id, outcome, reason);
            }
            self.resident = self.engine.resident_pages().0;
            if done.scanned == 0 && self.resident >= self.limit {
                self.now += 1;
                self.engine.lruvec_mut().walk_accessed();
                self.engine.age(Millis(self.now));
            }
        }
    }

    /// The engine, to look at.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Cache for EngineRun {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        let id = FolioId(id);
        if self.engine.lruvec_mut().touch(id) {
            return true;
        }
        self.fault(id);
        false
    }
}
