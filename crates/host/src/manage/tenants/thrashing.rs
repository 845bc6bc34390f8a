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

use std::time::Duration;

use engine::Pages;
use engine::memcg::MemcgId;

use super::super::moment::Moment;
use super::Tenants;

impl Tenants {
    /// Returns for how long only the kernel is to reclaim from a tenant with this usage, at its
    /// `memory.max`; `None` if proactive reclaim goes on.
    pub(super) fn time_left_to_memory_max(
        &mut self,
        memcg: MemcgId,
        usage: Pages,
        now: Moment,
    ) -> Option<Duration> {
        let tenant = self.tenants.get_mut(&memcg)?;
        let (hard_limit, race) = (&tenant.hard_limit, &mut tenant.allocation_race);
        let left = match race.left(now, || hard_limit.times_met().ok()) {
            Some(left) => left,
            None => {
                let faults = || hard_limit.majors().ok();
                let left = tenant.thrashing.left(now, usage, faults)?;
                let times = tenant.left_to_kernel.add(now, 1);
                let path = tenant.path.display();
                let what = times.map(|times| format!(
                    "/{path} is thrashing, so only the kernel reclaims from it at its memory.max ({times} times): more than a fifth of it was swapped in within a second"
                ));
                what.into_iter().for_each(|what| self.act(what));
                left
            }
        };
        let may = self.may_ask_kernel(memcg, self.tenants.get(&memcg)?);
        let tenant = self.tenants.get_mut(&memcg).filter(|_| may)?;
        tenant.next_hold = now.after(left);
        Some(left)
    }
}
