//! Fallback reclaim: the kernel reclaims for a memory.max below usage that proactive reclaim cannot
//! reach. Meanwhile the group may grow only a little.
//!
//! Invariants: fallback reclaim runs only while the limit is pending, when the kernel does not
//! enforce it, and only for a slice at a time. The kernel chooses the pages, so it runs only if the
//! kernel knows every limit and protection that restricts proactive reclaim. The group is never
//! limited below the requested limit.

use engine::memcg::MemcgId;
use engine::{Bytes, Limit, Pages};

use super::super::wakeup::Pause;
use super::pending_limit::{KernelReclaimRequest, SPARE};
use super::tenant::Tenant;
use super::unmapped::drop_in_steps;
use super::{SLICE, Tenants};
use crate::system::cgroup::Version;

/// Maximum number of pages in one request.
const AT_ONCE: Pages = Pages(8192);
/// Maximum number of pages in one request if swap is slower than memory: the kernel waits until the
/// pages are written.
const AT_ONCE_SLOW: Pages = Pages(2048);

impl Tenants {
    /// Requests that the kernel reclaim pages that proactive reclaim cannot: pages that several
    /// processes map, which MADV_PAGEOUT skips, and shared memory that no process maps now. Without
    /// that, the limit of a database with mostly shared memory would stay pending.
    ///
    /// Returns the number of pages reclaimed, then whether the pages of the previous request have
    /// refaulted.
    pub(super) fn ask_kernel(&mut self, memcg: MemcgId) -> (Pages, bool) {
        let scan = self.driver.scans();
        let none = (Pages(0), false);
        let Some(tenant) = self.tenants.get(&memcg) else {
            return none;
        };
        let Some(max) = tenant.due.max.flatten() else {
            return none;
        };
        let Ok(used) = tenant.hard_limit.charged() else {
            return none;
        };
        let (used, max) = (Bytes(used).pages(), Bytes(max).pages());
        // If the memory refaults at once because it is in use, one request a scan is enough. If it
        // stays swapped out, another request is worth it.
        let is_back = |last: KernelReclaimRequest| used.0 + last.got.0 / 2 > last.used.0;
        let is_again = |last: KernelReclaimRequest| {
            last.scan != scan || (last.got > Pages(0) && !is_back(last))
        };
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
        let (pause, mut left) = (Pause::after(&self.wakeup, SLICE), wanted.bytes().0);
        let got = Bytes(drop_in_steps(&tenant.hard_limit, &mut left, None, &pause)).pages();
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.resort = Some(KernelReclaimRequest { scan, used, got });
            let (path, pages) = (
                tenant.path.display().to_string(),
                tenant.reclaimed_by_kernel.add(got.0),
            );
            let what = |pages| {
                format!(
                    "the kernel reclaimed {pages} pages of /{path}: pagetide cannot page them out one by one"
                )
            };
            pages.map(what).into_iter().for_each(|what| self.act(what));
        }
        (got, has_come_back)
    }

    /// Writes a pending limit right after a reclaim if possible, because memory in use refaults
    /// within moments. If that is not possible, limits how much the group may grow, to less each
    /// time that memory refaulted. Returns how many fewer pages are charged because of that.
    pub(super) fn write_limit_after_reclaim(&mut self, memcg: MemcgId) -> Pages {
        self.set_pending_limits(memcg);
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return Pages(0);
        };
        let Some(max) = tenant.due.max.flatten() else {
            return Pages(0);
        };
        let Ok(used) = tenant.hard_limit.charged() else {
            return Pages(0);
        };
        // With slow swap, pages already written to it are still charged, so usage does not show
        // that they refaulted.
        if self.driver.watch.proc().has_slow_swap() {
            return Pages(0);
        }
        tenant.closing.note(Bytes(used).pages());
        match tenant.closing.room() {
            Some(room) => {
                tenant.hard_limit.bound(room);
                Pages(0)
            }
            None => self.step_down(memcg, max),
        }
    }

    /// Lowers the limit in small steps, for a group that uses all of its memory: the kernel
    /// reclaims a little, and the usage after that becomes the next limit, down to `max` bytes.
    /// Returns how many fewer pages are charged.
    fn step_down(&mut self, memcg: MemcgId, max: u64) -> Pages {
        let tenant = self.tenants.get(&memcg);
        let Some(tenant) = tenant.filter(|tenant| self.may_ask_kernel(memcg, tenant)) else {
            return Pages(0);
        };
        let pause = Pause::after(&self.wakeup, SLICE);
        let got = tenant.hard_limit.step_down(max, || pause.is_due());
        self.set_pending_limits(memcg);
        Bytes(got.unwrap_or(0)).pages()
    }

    /// Whether kernel reclaim would take only what proactive reclaim may take. Version 1 knows
    /// neither our protection nor our swap limits. No version knows our protection of the host's
    /// groups.
    pub(super) fn may_ask_kernel(&self, memcg: MemcgId, tenant: &Tenant) -> bool {
        let is_v1 = self.groups.version == Version::V1;
        let below = self.below(memcg);
        let of = |id: &MemcgId| self.tenants.get(id);
        let is_protected_one = |one: &Tenant| one.is_protected() && (is_v1 || one.of_host);
        let has_protected = below.iter().skip(1).filter_map(of).any(is_protected_one);
        let limits_swap = |one: &Tenant| {
            let is_kernels = !is_v1 && one.hard_limit.file("memory.swap.max").is_ok();
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
