//! Notices reclaim by the kernel itself, so that clients that wait for pressure can be notified.
//!
//! Invariant: only reclaim for lack of memory counts: by kswapd, by tasks that allocate (direct
//! reclaim), and at the limit of a group. Reclaim on request of a user or of pagetide does not.
//! While no client of any tenant can be notified, nothing is read.
//!
//! The signals, and why these (measured on Linux 6.18, and in guests with 6.12 and 6.1):
//!
//! - `pgscan_kswapd`, `pgscan_direct` and `pgscan_khugepaged` of `/proc/vmstat` rise only if the
//!   kernel reclaims for the whole host. Reclaim at a group's limit, MADV_PAGEOUT and a lowered
//!   limit leave them as they are. `allocstall` does not count kswapd. PSI can be switched off,
//!   also counts waits for swap, and reports time lost instead of pages aged.
//! - The number of charges that met a group's own limit ([`HardLimit::limit_reclaims`]) rises if
//!   the kernel reclaims at that limit, from that group and all groups below it.
//! - On version 2 a group's memory.stat shows whether reclaim of the whole host scanned the group.
//!   Version 1 has no such counters. There, the whole host's reclaim scans all groups alike,
//!   because it ignores their protection.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::memcg::MemcgId;

use super::super::IDLE_MAX;
use super::super::moment::Moment;
use super::super::stopwatch::Stopwatch;
use super::Tenants;
use super::kernel_counters::{Counter, KernelReclaim, TenantCounters};
use crate::hard_limit::HardLimit;
use crate::system::cgroup::{Version, parse_scanned};

impl Tenants {
    /// Begins or ends to note the kernel's reclaim for the clients of a tenant's report.
    pub fn notify_of_pressure(&mut self, memcg: MemcgId, can_notify: bool) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        let counters = &mut tenant.kernel_reclaim;
        // What was counted while no client could be notified does not count.
        if can_notify != counters.can_notify {
            *counters = TenantCounters::new(can_notify);
        }
        if can_notify && self.kernel_reclaim.next.is_none() {
            self.begin_counting();
        }
    }

    /// Takes the present values of all counters as those from which they rise.
    fn begin_counting(&mut self) {
        let root = self.tenants.get(&MemcgId::ROOT);
        let above = root.map(|root| root.hard_limit.group().dir.clone());
        let mount = self.groups.mount.clone();
        let tenants = self.tenants.values();
        let tenants: Vec<&Path> = tenants
            .map(|one| one.hard_limit.group().dir.as_path())
            .collect();
        let above = above.iter().flat_map(|dir| dir.ancestors().skip(1));
        let above = above.take_while(|dir| dir.starts_with(&mount));
        let above = above.filter(|dir| !tenants.contains(dir));
        let above = above.map(|dir| (dir.to_path_buf(), Counter::default()));
        let now = self.now();
        self.kernel_reclaim = KernelReclaim::new(now, above.collect());
        for tenant in self.tenants.values_mut() {
            let counters = &mut tenant.kernel_reclaim;
            *counters = TenantCounters::new(counters.can_notify);
        }
        self.note_kernel_reclaim(now);
    }

    /// Reads the counters if it is time, and notes the tenants from which the kernel has reclaimed.
    /// Returns the time until the next reading.
    pub(super) fn note_kernel_reclaim(&mut self, now: Moment) -> Duration {
        let Some(next) = self.kernel_reclaim.next else {
            return IDLE_MAX;
        };
        let wait = next.since(now);
        if !wait.is_zero() {
            return wait;
        }
        if !self
            .tenants
            .values()
            .any(|one| one.kernel_reclaim.can_notify)
        {
            self.kernel_reclaim.next = None;
            return IDLE_MAX;
        }
        let watch = Stopwatch::start();
        let host = self.driver.watch.proc().vmstat().ok();
        let host = host.map(|vmstat| vmstat.scanned_for_host);
        let has_risen = self.kernel_reclaim.has_scanned(now, host);
        if has_risen {
            self.note_host_pressure();
        }
        let is_summed = self.kernel_reclaim.is_summed(now);
        if has_risen || (self.groups.version == Version::V2 && !is_summed) {
            self.note_scanned();
        }
        self.note_hits();
        self.count_new();
        self.kernel_reclaim.plan(now, watch.took())
    }

    /// Notes the tenants of which reclaim of the whole host scanned pages.
    fn note_scanned(&mut self) {
        let has_counters = self.groups.version == Version::V2;
        let mut reclaimed = Vec::new();
        for tenant in self.tenants.values_mut() {
            if !tenant.kernel_reclaim.can_notify {
                continue;
            }
            let now = has_counters.then(|| scanned(&tenant.hard_limit)).flatten();
            if now.is_none() || tenant.kernel_reclaim.scanned.has_risen(now) {
                reclaimed.push(tenant.memcg);
            }
        }
        self.reclaimed_from.extend(reclaimed);
    }

    /// Reads the first values of tenants that have none yet. Version 1 has no such counters.
    fn count_new(&mut self) {
        if self.groups.version == Version::V1 {
            return;
        }
        for tenant in self.tenants.values_mut() {
            let counters = &mut tenant.kernel_reclaim;
            if counters.can_notify && !counters.is_scanned_read {
                counters.is_scanned_read = true;
                counters.scanned.has_risen(scanned(&tenant.hard_limit));
            }
        }
    }

    /// Notes the tenants from which the kernel has reclaimed at the limit of a group.
    fn note_hits(&mut self) {
        let mut hits: BTreeSet<PathBuf> = BTreeSet::new();
        for (dir, counter) in &mut self.kernel_reclaim.above {
            if counter.has_risen(self.groups.limit_reclaims(dir)) {
                hits.insert(dir.clone());
            }
        }
        for tenant in self.tenants.values_mut() {
            let now = tenant.hard_limit.limit_reclaims().ok();
            if tenant.kernel_reclaim.at_limit.has_risen(now) {
                hits.insert(tenant.hard_limit.group().dir.clone());
            }
        }
        if hits.is_empty() {
            return;
        }
        let is_below = |one: &Path| one.ancestors().any(|dir| hits.contains(dir));
        let tenants = self.tenants.values();
        let below = tenants.filter(|one| is_below(&one.hard_limit.group().dir));
        let below: Vec<MemcgId> = below.map(|one| one.memcg).collect();
        for memcg in below {
            self.note_pressure(memcg);
        }
    }
}

/// Returns how many of a group's pages reclaim has scanned (version 2).
fn scanned(hard_limit: &HardLimit) -> Option<u64> {
    parse_scanned(&hard_limit.file("memory.stat").ok()?)
}
