//! Drops page cache for a policy (`cache-older-than`): unmapped cache that has been in memory for
//! longer than the policy allows.
//!
//! Invariant: at most as much is dropped as the kernel has on its inactive list and need not write
//! first. The time in memory is an estimate, and says nothing about reads. Files that are read
//! again and again are on the kernel's active list, and stay.

use std::ffi::OsStr;

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::{Bytes, Millis, Pages};

use super::super::headroom::CACHE_FIRST_SWAPPINESS;
use super::super::wakeup::Pause;
use super::Tenants;
use super::tenant::Tenant;
use super::under_way::PolicyOrder;
use super::unmapped::LEAST;
use crate::hard_limit::HardLimit;
use crate::system::cgroup::Version;
use crate::system::thread_cpu;

impl Tenants {
    /// Returns a tenant's unmapped page cache by the time for which it has been in memory. Empty
    /// for a tenant that has tenants below it, because its own part is unknown.
    pub(super) fn cache_ages(&self, memcg: MemcgId, now: Millis) -> AgeHistogram {
        let mut ages = AgeHistogram::new();
        let tenant = self.tenants.get(&memcg);
        let is_alone = self.is_alone(memcg);
        let nodes = tenant
            .filter(|_| is_alone)
            .and_then(|one| one.cache.as_ref());
        for (since, bytes) in nodes
            .into_iter()
            .flatten()
            .flat_map(|node| node.files.all())
        {
            ages.add(now.since(Millis(since)), Bytes(bytes).pages());
        }
        ages
    }

    /// Drops page cache that a policy ordered, for one slice. Returns whether the order is
    /// complete. In a dry run nothing is dropped; all bytes that would have been dropped are
    /// counted.
    pub(super) fn drop_ordered_cache(
        &mut self,
        memcg: MemcgId,
        ordered: &mut PolicyOrder,
        pause: &Pause,
    ) -> bool {
        let requested = ordered.order.cache;
        let mut left = match ordered.cache {
            Some(left) => left,
            None if requested == Pages(0) => 0,
            None => {
                // Protection is subtracted from the current usage.
                self.measure_one(memcg);
                self.idle_cache(memcg, requested)
            }
        };
        if ordered.how.dry_run {
            (ordered.dropped, left) = (Bytes(left).pages(), 0);
        } else if left > 0 {
            let worked = thread_cpu();
            // Version 2 can reclaim page cache alone. A kernel that does not know that option
            // refuses the request.
            let swappiness = match self.groups.version {
                Version::V1 => CACHE_FIRST_SWAPPINESS,
                Version::V2 => {
                    self.say_if_it_cannot(memcg);
                    0
                }
            };
            let got = self.take_cache(memcg, (&mut left, swappiness), pause);
            ordered.dropped.0 += Bytes(got).pages().0;
            ordered.dropping += thread_cpu().saturating_sub(worked);
            self.measure_one(memcg);
            left = left.min(self.driver.machine.unprotected(memcg).bytes().0);
        }
        // A tenant has been made below this one since the last slice.
        if left > 0 && !self.is_alone(memcg) {
            left = 0;
        }
        ordered.cache = Some(left);
        left == 0
    }

    /// Logs once that `cache-older-than` has no effect, because this kernel cannot drop page cache
    /// alone.
    fn say_if_it_cannot(&mut self, memcg: MemcgId) {
        let cannot = |error: std::io::Error| error.kind() == std::io::ErrorKind::Unsupported;
        let tenant = self.tenants.get(&memcg).filter(|_| !self.said_no_cache);
        // Requests less than a page, only to see whether the kernel knows the swappiness argument.
        if tenant.is_some_and(|one| one.hard_limit.reclaim(1, Some(0)).is_err_and(cannot)) {
            self.said_no_cache = true;
            let what = "page cache stays, whatever `cache-older-than` says: this kernel cannot reclaim only page cache (Linux 6.11 can)";
            self.act(what.to_owned());
        }
    }

    /// Whether kernel reclaim from this tenant's group would take from this tenant only. A
    /// hard-limit cgroup of `run`, at any depth, belongs to another manager. On version 1 there may
    /// be no group at all below the tenant: the kernel would use that group's own swappiness, and
    /// take anonymous memory there.
    fn is_alone(&self, memcg: MemcgId) -> bool {
        let is_v1 = self.groups.version == Version::V1;
        let is_another = |name: &OsStr| is_v1 || HardLimit::is_of_run(name);
        let tenant = self.tenants.get(&memcg);
        // A group that cannot be read may belong to another manager.
        let has_another = |one: &Tenant| one.hard_limit.has_any_below(is_another).unwrap_or(true);
        !tenant.is_some_and(has_another) && self.below(memcg).len() == 1
    }

    /// Returns how much page cache to drop, in bytes: at most `requested`, what is on the kernel's
    /// inactive list and need not be written, and what protection allows. Returns 0 if that is too
    /// little to request.
    fn idle_cache(&self, memcg: MemcgId, requested: Pages) -> u64 {
        if !self.is_alone(memcg) {
            return 0;
        }
        let unprotected = self.driver.machine.unprotected(memcg);
        let idle = self.droppable_cache(memcg, memcg, HardLimit::cache_idle);
        let most = requested.min(unprotected).bytes().0;
        let part = idle.unwrap_or(0).min(most);
        if part < LEAST { 0 } else { part }
    }
}
