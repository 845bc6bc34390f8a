//! A memory.max below what is in use that our hand cannot bring a tenant under: the kernel is asked for the rest of it, and what has left is not let back.
//!
//! Invariants: only while the limit waits for its place, as no wall can have the kernel do so by itself; no longer than a slice at a time; and only where
//! the kernel, which chooses itself, knows all that would keep our hand off. No bound is below the limit that was asked for.

use engine::memcg::MemcgId;
use engine::{Limit, Pages};

use super::super::pause::Pause;
use super::closing::{Resort, SPARE};
use super::tenant::Tenant;
use super::unmapped::drop_in_steps;
use super::{SLICE, Tenants};
use crate::system::cgroup::Version;

/// Most pages that are asked for at once.
const AT_ONCE: Pages = Pages(8192);
/// The same where swap is slower than memory: the kernel waits for it.
const AT_ONCE_SLOW: Pages = Pages(2048);

impl Tenants {
    /// What our hand does not get: pages that several processes map, which the kernel skips where one of them is asked, or of shared memory that none
    /// maps just now. How many pages went, and whether what went before has come back. (The story: a database most of which was shared memory stayed
    /// over its limit, which never took its place.)
    pub(super) fn ask_kernel(&mut self, memcg: MemcgId) -> (Pages, bool) {
        let look = self.driver.looks();
        let none = (Pages(0), false);
        let Some(tenant) = self.tenants.get(&memcg) else {
            return none;
        };
        let Some(max) = tenant.due.max.flatten() else {
            return none;
        };
        let Ok(used) = tenant.wall.charged() else {
            return none;
        };
        let (used, max) = (Pages(used / 4096), Pages(max / 4096));
        // Who uses it all takes it back at once: that is asked for once a look. What stays away is worth asking for more.
        let is_back = |last: Resort| used.0 + last.got.0 / 2 > last.used.0;
        let is_again = |last: Resort| last.look != look || (last.got > Pages(0) && !is_back(last));
        let may_again = tenant.resort.is_none_or(is_again);
        if used <= max || !may_again || !self.may_ask_kernel(memcg, tenant) {
            return none;
        }
        let has_come_back = tenant.resort.is_some_and(is_back);
        let at_once = match self.driver.watch.proc().has_slow_swap() {
            true => AT_ONCE_SLOW,
            false => AT_ONCE,
        };
        let wanted = Pages(used.less(max).0 + SPARE.0).min(at_once);
        let (pause, mut left) = (Pause::after(&self.bell, SLICE), wanted.bytes().0);
        let got = Pages(drop_in_steps(&tenant.wall, &mut left, None, &pause) / 4096);
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.resort = Some(Resort { look, used, got });
            let (path, pages) = (
                tenant.path.display().to_string(),
                tenant.resorted.add(got.0),
            );
            let what = |pages| {
                format!(
                    "the kernel reclaimed {pages} pages of /{path}: they cannot be asked for one by one"
                )
            };
            pages.map(what).into_iter().for_each(|what| self.act(what));
        }
        (got, has_come_back)
    }

    /// Memory has left for a limit: it is put at once if it can be, as what is in use is back in a moment. What came back before meets a bound that is
    /// nearer. (The story: of a server that went through 40 MiB each second all that left for a limit of 28 was back before the limit was looked at again.) How many pages less are charged by that.
    pub(super) fn put_at_once(&mut self, memcg: MemcgId) -> Pages {
        self.put_due(memcg);
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return Pages(0);
        };
        let Some(max) = tenant.due.max.flatten() else {
            return Pages(0);
        };
        let Ok(used) = tenant.wall.charged() else {
            return Pages(0);
        };
        // What a disk has taken is charged still: that has not come back.
        if self.driver.watch.proc().has_slow_swap() {
            return Pages(0);
        }
        tenant.closing.note(Pages(used / 4096));
        match tenant.closing.room() {
            Some(room) => {
                tenant.wall.bound(room);
                Pages(0)
            }
            None => self.close_in(memcg, max),
        }
    }

    /// All of it is in use: the kernel takes it a little at a time, and its program meets the limit so far each time. How many pages less are charged.
    fn close_in(&mut self, memcg: MemcgId, max: u64) -> Pages {
        let tenant = self.tenants.get(&memcg);
        let Some(tenant) = tenant.filter(|tenant| self.may_ask_kernel(memcg, tenant)) else {
            return Pages(0);
        };
        let pause = Pause::after(&self.bell, SLICE);
        let got = tenant.wall.close_in(max, || pause.is_due());
        self.put_due(memcg);
        Pages(got.unwrap_or(0) / 4096)
    }

    /// Whether the kernel takes from nobody but whom our hand may take from: version 1 knows neither protection nor limits of swap of ours, and
    /// neither version what we keep of groups of the host.
    pub(super) fn may_ask_kernel(&self, memcg: MemcgId, tenant: &Tenant) -> bool {
        let is_v1 = self.groups.version == Version::V1;
        let below = self.below(memcg);
        let of = |id: &MemcgId| self.tenants.get(id);
        let is_protected_one = |one: &Tenant| one.is_protected() && (is_v1 || one.of_host);
        let has_protected = below.iter().skip(1).filter_map(of).any(is_protected_one);
        let limits_swap = |one: &Tenant| {
            let is_kernels = !is_v1 && one.wall.file("memory.swap.max").is_ok();
            one.limits.swap_max != Limit::Max && !is_kernels
        };
        let above = self.driver.machine.tree().ancestors(memcg);
        let is_bound = above.filter_map(|id| of(&id)).any(limits_swap)
            || below.iter().filter_map(of).any(limits_swap);
        let is_host = memcg == MemcgId::ROOT && self.budget_of_host().is_some();
        let may = self.may_change(memcg).is_ok() && !is_host && !has_protected && !is_bound;
        may && !self.has_others_below(tenant)
    }
}
