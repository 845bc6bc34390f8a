//! A memory.max below what is in use that our hand cannot bring a tenant under: the kernel is asked for the rest of it.
//!
//! Invariants: only while the limit waits for its place, as no wall can have the kernel do so by itself; a little at each look; and only where the
//! kernel, which chooses itself, knows all that would keep our hand off.

use engine::memcg::MemcgId;
use engine::{Limit, Pages};

use super::Tenants;
use super::tenant::Tenant;
use crate::system::cgroup::Version;

/// Most pages that are asked for at a look.
const AT_ONCE: Pages = Pages(2048);

impl Tenants {
    /// What our hand does not get: pages that several processes map, which the kernel skips where one of them is asked, or of shared memory that none
    /// maps just now. How many went, if what went before stayed away. (The story: a database most of which was shared memory stayed over its limit,
    /// which never took its place.)
    pub(super) fn ask_kernel(&mut self, memcg: MemcgId) -> Pages {
        let reading = self.driver.readings();
        let waits = |one: &&Tenant| one.resort.is_none_or(|(asked, _)| asked != reading);
        let Some(tenant) = self.tenants.get(&memcg).filter(waits) else {
            return Pages(0);
        };
        let (Some(max), Ok(used)) = (tenant.due.max.flatten(), tenant.wall.charged()) else {
            return Pages(0);
        };
        let (used, max) = (Pages(used / 4096), Pages(max / 4096));
        if used <= max || !self.may_ask_kernel(memcg, tenant) {
            return Pages(0);
        }
        let most = used.less(max).min(AT_ONCE);
        let got = Pages(tenant.wall.reclaim(most.bytes().0, None).unwrap_or(0) / 4096);
        let path = tenant.path.display();
        let what = format!(
            "the kernel reclaimed {} pages of /{path}: they cannot be asked for one by one",
            got.0
        );
        if got > Pages(0) {
            self.act(what);
        }
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return got;
        };
        // Who uses it all takes it back at once.
        let is_back = |(_, before): (u64, Pages)| used.0 + AT_ONCE.0 / 2 > before.0;
        match tenant.resort.replace((reading, used)).is_some_and(is_back) {
            true => Pages(0),
            false => got,
        }
    }

    /// Whether the kernel takes from nobody but whom our hand may take from: version 1 knows neither protection nor limits of swap of ours, and
    /// neither version what we keep of groups of the host.
    fn may_ask_kernel(&self, memcg: MemcgId, tenant: &Tenant) -> bool {
        let is_v1 = self.groups.version == Version::V1;
        let below = self.below(memcg);
        let of = |id: &MemcgId| self.tenants.get(id);
        let is_kept = |one: &Tenant| one.is_protected() && (is_v1 || one.of_host);
        let has_kept = below.iter().skip(1).filter_map(of).any(is_kept);
        let limits_swap = |one: &Tenant| {
            let is_kernels = !is_v1 && one.wall.file("memory.swap.max").is_ok();
            one.limits.swap_max != Limit::Max && !is_kernels
        };
        let above = self.driver.machine.tree().ancestors(memcg);
        let is_bound = above.filter_map(|id| of(&id)).any(limits_swap)
            || below.iter().filter_map(of).any(limits_swap);
        let is_host = memcg == MemcgId::ROOT && self.budget_of_host().is_some();
        let may = self.may_change(memcg).is_ok() && !is_host && !has_kept && !is_bound;
        may && !self.has_others_below(tenant)
    }
}
