//! Settings with which a manager is started, requests to reclaim, and their results.

use std::time::Duration;

use engine::memcg::MemcgLimits;
use engine::policy::WriteBudget;
pub use engine::vmscan::Kept;
use engine::{Bytes, Limit, Millis, Swappiness, policy};
use serde::{Deserialize, Serialize};

use crate::hard_limit::PendingLimits;
use crate::report::LimitsReport;
use crate::swap::Tier;
use crate::system::cgroup::Version;
use crate::system::family::Target;

/// Limits of a tenant, with the meaning of the cgroup v2 files of these names. `T` is the type of
/// one limit: in options a limit may be a share of the machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits<T = Limit> {
    /// Memory up to this amount is never reclaimed for another tenant.
    pub min: T,
    /// Memory up to this amount is reclaimed for another tenant only if nothing else can be
    /// reclaimed.
    pub low: T,
    /// Memory above this amount is reclaimed. If the processes are in a cgroup that we can write,
    /// the kernel also slows them down.
    pub high: T,
    /// Hard limit: enforced by our cgroup, or, if there is none, by the manager's own measurements
    /// of usage, at its own times.
    pub max: T,
    /// Maximum memory in swap; proactive reclaim does not exceed it.
    pub swap_max: T,
}

impl<T: From<Limit>> Default for Limits<T> {
    fn default() -> Limits<T> {
        let nothing = || Limit::Bytes(Bytes(0)).into();
        Limits {
            min: nothing(),
            low: nothing(),
            high: Limit::Max.into(),
            max: Limit::Max.into(),
            swap_max: Limit::Max.into(),
        }
    }
}

impl<T: From<Limit> + PartialEq> Limits<T> {
    /// Whether memory is limited.
    #[must_use]
    pub fn hold(&self) -> bool {
        self.max != Limit::Max.into() || self.high != Limit::Max.into()
    }

    /// Whether swap is the only memory with a limit. The manager keeps that limit; the kernel does
    /// so only in a control group of version 2.
    #[must_use]
    pub fn bound_swap_alone(&self) -> bool {
        !self.hold() && self.swap_max != Limit::Max.into()
    }
}

impl Limits {
    /// Whether the kernel enforces all limits of memory, given those that are still `pending`: they
    /// are set on the cgroup, and its version supports them (version 1 has no memory.high).
    pub(super) fn are_enforced(&self, pending: &PendingLimits, version: Version) -> bool {
        let has_high = version == Version::V2 || self.high == Limit::Max;
        has_high && pending.stands()
    }
}

impl From<Limits> for MemcgLimits {
    fn from(limits: Limits) -> MemcgLimits {
        MemcgLimits {
            min: limits.min.pages(),
            low: limits.low.pages(),
            high: limits.high,
            max: limits.max,
            swap_max: limits.swap_max,
            ..MemcgLimits::default()
        }
    }
}

/// The limits in bytes, rounded down to pages; no protection is reported as `None`, as no limit is.
impl From<Limits> for LimitsReport {
    fn from(limits: Limits) -> LimitsReport {
        let hard = |limit: Limit| limit.bytes().map(|bytes| bytes.pages().bytes().0);
        let soft = |limit: Limit| hard(limit).filter(|bytes| *bytes > 0);
        LimitsReport {
            min_bytes: soft(limits.min),
            low_bytes: soft(limits.low),
            high_bytes: hard(limits.high),
            max_bytes: hard(limits.max),
            swap_max_bytes: hard(limits.swap_max),
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
    /// Number of pages that were not paged out because a driver has pinned them; not in `kept`.
    pub pinned_pages: u64,
    /// Number of pages of unknown age, which [`Ask::OlderThan`] and [`Ask::Bytes`] do not reclaim.
    pub unknown_pages: u64,
    /// Whether the reclaim ended because no swap was free.
    pub no_swap: bool,
    /// The kernel's error, if it refused to page out.
    pub refused: Option<String>,
}
