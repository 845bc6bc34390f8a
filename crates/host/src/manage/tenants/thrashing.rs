//! Tenants from which, for a while, only the kernel reclaims, at their `memory.max`: they are
//! thrashing ([`super::thrashing_detector`]), or allocate faster than proactive reclaim
//! ([`super::allocation_race`]).
//!
//! Invariant: this is done only while the kernel enforces the limit, and only if the kernel then
//! takes from no tenant from which proactive reclaim would not.
//!
//! Pages that proactive reclaim takes from such tenants are refaulted at once. With proactive
//! reclaim, two Redis servers under one limit served 64% of the requests that they served under the
//! kernel alone.

use std::time::{Duration, Instant};

use engine::Pages;
use engine::memcg::MemcgId;

use super::Tenants;
use super::thrashing_detector::ThrashingDetector;

impl Tenants {
    /// Returns for how long only the kernel is to reclaim from a tenant with this usage, at its
    /// `memory.max`; `None` if proactive reclaim goes on.
    pub(super) fn time_left_to_memory_max(
        &mut self,
        memcg: MemcgId,
        usage: Pages,
    ) -> Option<Duration> {
        let now = Instant::now();
        let tenant = self.tenants.get_mut(&memcg)?;
        let hard_limit = &tenant.hard_limit;
        let allocation_race = tenant
            .allocation_race
            .left(now, || hard_limit.times_met().ok());
        let left = allocation_race.or_else(|| self.thrashes(memcg, usage, now))?;
        let may = self.may_ask_kernel(memcg, self.tenants.get(&memcg)?);
        let tenant = self.tenants.get_mut(&memcg).filter(|_| may)?;
        tenant.next_hold = now + left;
        Some(left)
    }

    /// Like [`Tenants::time_left_to_memory_max`], but considers only thrashing.
    fn thrashes(&mut self, memcg: MemcgId, usage: Pages, now: Instant) -> Option<Duration> {
        let tenant = self.tenants.get_mut(&memcg)?;
        match &mut tenant.thrashing {
            Some(thrashing) if !thrashing.is_due(now) => {}
            Some(thrashing) => thrashing.measure(now, tenant.hard_limit.majors().ok()?, usage),
            none => {
                *none = Some(ThrashingDetector::since(
                    now,
                    tenant.hard_limit.majors().ok()?,
                ))
            }
        }
        let left = tenant.thrashing.as_ref()?.left(now)?;
        if let Some(times) = tenant.left_to_kernel.add(1) {
            let path = tenant.path.display();
            let what = format!(
                "/{path} is thrashing, so only the kernel reclaims from it at its memory.max ({times} times): more than a fifth of it was swapped in within a second"
            );
            self.act(what);
        }
        Some(left)
    }
}
