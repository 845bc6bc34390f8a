//! The settings of a [`super::Machine`], and the request that starts a reclaim.

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
    /// By the memcg LRU: each reclaim takes from a few tenants.
    #[default]
    MemcgLru,
    /// By a walk over the tree: each reclaim takes from all tenants. Linux reclaimed so before it
    /// had the memcg LRU; the walk is here for comparison.
    Iterator,
    /// By heat levels: each reclaim takes from tenants that yielded much lately, and from others
    /// only if that is not enough. Proposed for Linux, and in no release.
    /// spec: heat-level.md.
    HeatLevel,
}

/// When reclaim by the classic LRU sees changes in the statistics that it uses.
/// spec: rstat.md 6.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LevelReads {
    /// Reclaim sees each change at once.
    #[default]
    AtOnce,
    /// Reclaim sees changes after the periodic flush ([`super::Machine::flush_stats_if_due`]), or
    /// after a user's read that flushes, as in Linux v6.12 and later.
    RateLimited,
}

/// What opens the generations of the multi-gen LRU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aging {
    /// Reclaim opens a generation when it needs one, as in a kernel.
    #[default]
    ByReclaim,
    /// Each scan opens a generation, too ([`super::Machine::age`]). Then the number of pages
    /// evicted since a page's eviction decides whether its refault is recent. The number of
    /// generations opened since cannot decide that: scans open four generations before most pages
    /// return.
    ByScans,
}

/// The settings of a machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineConfig {
    /// The kind of LRU that every tenant has: multi-gen or classic.
    pub policy: Policy,
    /// What opens generations of the multi-gen LRU.
    pub aging: Aging,
    /// How reclaim of the root chooses among tenants.
    pub global: GlobalReclaim,
    /// The kernel version that the memcg LRU follows.
    pub memcg_profile: MemcgProfile,
    /// Seed of the random choices among the bins of the memcg LRU.
    pub seed: u64,
    /// Whether the mount option memory_recursiveprot is set.
    pub recursive_protection: bool,
    /// Pages charged ahead into a stock; with 1, charges are exact.
    pub charge_batch: u64,
    /// Number of workers (simulated threads that reclaim at the same time), at least one. Each has
    /// its own deltas of the statistics.
    pub workers: usize,
    /// Whether to make passes at priorities at which no memcg has a page to evict, as the kernel
    /// does. Such passes move entries of the memcg LRU, and visit every memcg. Without them,
    /// 100,000 tenants with one page each can be simulated.
    pub vain_passes: bool,
    /// Whether a reclaim of the root takes from tenants below low only when no other tenant has any
    /// page to take. The kernel's memcg LRU skips such a tenant at the first visit only.
    pub low_last: bool,
    /// Whether a reclaim continues where the last one ended. For the root see
    /// [`crate::memcg::MemcgLru::set_in_turn`]; the kernel begins at a random bin. A reclaim of a
    /// subtree visits the whole subtree from that memcg on; in the kernel it ends with the shared
    /// walk that it joined.
    pub in_turn: bool,
    /// Size of the swap.
    pub swap: Limit,
    /// Whether the number of shadows is bounded, as in a kernel, where they cost memory.
    pub bound_shadows: bool,
    /// Maximum number of pages that are paged out in one batch. With batches of 64, the kernel's
    /// size, a reclaim may take more than the request; with larger batches only background reclaim
    /// may ([`ScanControl::is_exact`]).
    pub batch: usize,
    /// How a pass continues to scan the classic lists after it has reclaimed enough.
    pub scan_reduction: ScanReduction,
    /// When reclaim by the classic lists sees changes of the statistics.
    pub level_reads: LevelReads,
}

/// Number of pages that a host isolates for one batch; paging them out takes some milliseconds.
pub const HOST_BATCH: usize = 2048;

/// Minimum time between two scans of a host when a reclaim needs fresh ages.
pub const HOST_SCANS_APART: Millis = Millis(200);

impl MachineConfig {
    /// Returns the settings with which a host manages a tree of tenants. Reclaim takes from
    /// protected tenants last, and begins after the tenant where the previous reclaim ended. The
    /// caller sets the seed.
    #[must_use]
    pub fn of_host() -> Self {
        Self {
            aging: Aging::ByScans,
            low_last: true,
            in_turn: true,
            batch: HOST_BATCH,
            ..Self::default()
        }
    }
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            aging: Aging::default(),
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

/// A request to reclaim from several tenants.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimRequest {
    /// Kind of the reclaim.
    pub reason: ScanReason,
    /// Number of pages to reclaim.
    pub nr: Pages,
    /// Swappiness to use instead of the tenants' own; `None` to use theirs.
    pub swappiness: Option<Swappiness>,
    /// Current time.
    pub now: Millis,
}

impl ReclaimRequest {
    /// Creates a request that uses the tenants' own swappiness.
    #[must_use]
    pub const fn new(reason: ScanReason, nr: Pages, now: Millis) -> Self {
        Self {
            reason,
            nr,
            swappiness: None,
            now,
        }
    }
}
