//! Settings with which a manager is started, requests to reclaim, and their results.

use std::time::Duration;

use engine::policy::WriteBudget;
pub use engine::vmscan::Kept;
use engine::{Bytes, Limit, Millis, Swappiness, policy};
use serde::{Deserialize, Serialize};

use crate::swap::Tier;
use crate::system::family::Target;

/// Limits of a tenant, with the meaning of the cgroup v2 files of these names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Memory up to this amount is never reclaimed for another tenant.
    pub min: Limit,
    /// Memory up to this amount is reclaimed for another tenant only if nothing else can be
    /// reclaimed.
    pub low: Limit,
    /// Memory above this amount is reclaimed. If the processes are in a cgroup that we can write,
    /// the kernel also slows them down.
    pub high: Limit,
    /// Hard limit: enforced by our cgroup, or, if there is none, at each scan only.
    pub max: Limit,
    /// Maximum memory in swap; proactive reclaim does not exceed it.
    pub swap_max: Limit,
}

/// Value of `min` and `low` that protects nothing.
const NOTHING: Limit = Limit::Bytes(Bytes(0));

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            min: NOTHING,
            low: NOTHING,
            high: Limit::Max,
            max: Limit::Max,
            swap_max: Limit::Max,
        }
    }
}

impl Limits {
    /// Returns the limits that usage must not exceed: `max`, then `high`.
    pub(super) const fn by_usage(&self) -> (Limit, Limit) {
        (self.max, self.high)
    }
}

/// Settings with which a manager is started.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// The processes to manage.
    pub target: Target,
    /// Time between two scans. Extra scans are made if reclaim needs fresh ages.
    pub interval: Duration,
    /// Maximum time for which clearing accessed bits may delay a page fault of the program; `None`
    /// for a time that suits the interval.
    pub max_wait: Option<Duration>,
    /// Limits of the processes.
    pub limits: Limits,
    /// Whether the engine uses active and inactive lists instead of generations.
    pub classic: bool,
    /// How much anonymous memory is reclaimed, compared to files.
    pub swappiness: Swappiness,
    /// Policy that pages out even if no limit requires it; `None` for no policy.
    pub policy: Option<policy::PolicySettings>,
    /// Writeback of swapped-out pages to a disk; then the time for which a page must be unused to
    /// be written. `None` for no writeback.
    pub write_back: Option<(WritebackSettings, Millis)>,
    /// Dry run: the manager decides and reports reasons, but pages out nothing.
    pub dry_run: bool,
}

/// Writeback: swapped-out pages move from compressed memory (zram) to the disk behind it.
#[derive(Clone, Debug)]
pub struct WritebackSettings {
    /// The zram device.
    pub tier: Tier,
    /// How much may be written to the disk.
    pub budget: WriteBudget,
    /// Dry run: writeback decides and reports reasons, but writes nothing.
    pub dry_run: bool,
}

/// A request to reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Reclaim this many bytes, the coldest pages first.
    Bytes(u64),
    /// Reclaim the pages that were not accessed for at least this time.
    OlderThan(Duration),
    /// Reclaim all pages that are not in use now (parking).
    All,
}

/// Result of a reclaim.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    /// Number of pages requested; for [`Ask::OlderThan`] and [`Ask::All`], the number of pages in
    /// memory.
    pub asked_pages: u64,
    /// Number of pages paged out, verified in the kernel's page tables.
    pub evicted_pages: u64,
    /// In a dry run: number of pages that would have been paged out.
    pub would_pages: u64,
    /// Number of pages that were not paged out, by reason.
    pub kept: Kept,
    /// Number of pages of unknown age, which [`Ask::OlderThan`] and [`Ask::Bytes`] do not reclaim.
    pub unknown_pages: u64,
    /// Whether the reclaim ended because no swap was free.
    pub no_swap: bool,
    /// The kernel's error, if it refused to page out.
    pub refused: Option<String>,
}
