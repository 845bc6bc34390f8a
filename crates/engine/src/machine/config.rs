//! What a machine is made with, and what a reclaim of it wants.

use crate::lru_gen::MIN_LRU_BATCH;
use crate::lruvec::Policy;
use crate::memcg::MemcgProfile;
use crate::units::{Limit, Millis, Pages, Swappiness};
#[cfg(doc)]
use crate::vmscan::ScanControl;
use crate::vmscan::{ScanReason, ScanReduction};

/// How reclaim of the root chooses among tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalReclaim {
    /// By the memcg LRU: a few tenants at a time.
    #[default]
    MemcgLru,
    /// By the hierarchy: all of them, every time. What the memcg LRU replaced, to compare.
    Iterator,
}

/// When reclaim by the classic LRU sees what has changed in the statistics that it goes by. spec: rstat.md 6.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LevelReads {
    /// At once.
    #[default]
    AtOnce,
    /// At the periodic flush ([`super::Machine::flush_stats_if_due`]), or when a user's read flushes: v6.12 and later.
    RateLimited,
}

/// What a machine is made with.
#[derive(Clone, Copy, Debug)]
pub struct MachineConfig {
    /// Which LRU every tenant gets.
    pub policy: Policy,
    /// How the root is reclaimed.
    pub global: GlobalReclaim,
    /// Whose memcg LRU.
    pub memcg_profile: MemcgProfile,
    /// Decides the random bins.
    pub seed: u64,
    /// Mount option memory_recursiveprot.
    pub recursive_protection: bool,
    /// Pages charged ahead; 1 is exact.
    pub charge_batch: u64,
    /// Who may work at once: each has deltas of its own in statistics. At least one.
    pub workers: usize,
    /// Passes at whose priority nobody has a page to give are made all the same, as the kernel makes them: they move
    /// entries of the memcg LRU about, and cost a visit of everybody. Without them 100,000 tenants of a page each
    /// can be simulated.
    pub vain_passes: bool,
    /// Tenants below low give to a reclaim of the root only when nobody else has anything left. The kernel's memcg LRU
    /// passes over them once, and takes from them the next time that it meets them.
    pub low_last: bool,
    /// Reclaims of the root go on where the last one ended ([`crate::memcg::MemcgLru::set_in_turn`]); the kernel's begin
    /// at random. Those of a subtree do, too, and go all the way round from there; the kernel's end with the round that they join.
    pub in_turn: bool,
    /// The swap there is.
    pub swap: Limit,
    /// Shadows are bounded, as where they cost memory.
    pub bound_shadows: bool,
    /// Most pages that are paged out at once. The kernel's 64 may overshoot an aim, as the kernel
    /// does; more than that never do, but in background reclaim ([`ScanControl::is_exact`]).
    pub batch: usize,
    /// How classic lists go on once a pass has reached its aim.
    pub scan_reduction: ScanReduction,
    /// When classic lists know of changes in statistics.
    pub level_reads: LevelReads,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            global: GlobalReclaim::default(),
            memcg_profile: MemcgProfile::default(),
            seed: 0,
            recursive_protection: true,
            charge_batch: 1,
            workers: 1,
            vain_passes: true,
            low_last: false,
            in_turn: false,
            swap: Limit::Max,
            bound_shadows: false,
            batch: MIN_LRU_BATCH,
            scan_reduction: ScanReduction::default(),
            level_reads: LevelReads::default(),
        }
    }
}

/// What a reclaim of several tenants wants.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimRequest {
    /// Who asks.
    pub reason: ScanReason,
    /// The aim.
    pub nr: Pages,
    /// Overrides the tenants' own.
    pub swappiness: Option<Swappiness>,
    /// The present.
    pub now: Millis,
}
