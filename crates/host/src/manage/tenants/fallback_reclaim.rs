//! Fallback reclaim: the kernel reclaims what proactive reclaim cannot, as pages that several
//! processes map: for a memory.max below usage, for memory.high, or on request of a user. While a
//! memory.max is pending the group may grow only a little.
//!
//! Invariants: fallback reclaim for a limit runs only while the kernel does not enforce it, and
//! only for a slice at a time. Before each request the pages in use are activated
//! ([`super::super::activation`]), because the kernel chooses the pages. It runs only if the kernel
//! knows every limit and protection that restricts proactive reclaim. The group is never limited
//! below the requested limit.

use engine::memcg::MemcgId;
use engine::{Bytes, Limit, Pages, Swappiness};

use super::super::moment::Moment;
use super::super::options::Ask;
use super::super::reclaim_totals::ReclaimTotals;
use super::super::wakeup::Pause;
use super::pending_limit::{KernelReclaimRequest, above_limits};
use super::tenant::Tenant;
use super::under_way::RequestedReclaim;
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
    /// refaulted. `None` if the next call must first continue to activate the pages in use.
    pub(super) fn ask_kernel(&mut self, memcg: MemcgId, now: Moment) -> Option<(Pages, bool)> {
        let scan = self.driver.scans();
        let none = Some((Pages(0), false));
        let Some(tenant) = self.tenants.get(&memcg) else {
            return none;
        };
        let Ok(used) = tenant.hard_limit.charged() else {
            return none;
        };
        let used = Bytes(used).pages();
        let last = tenant.resort;
        let may_again = last.is_none_or(|last| last.may_repeat(scan, used));
        let above = self.above_limits(memcg, tenant, used);
        if above == Pages(0) || !may_again || !self.may_ask_kernel(memcg, tenant) {
            return none;
        }
        let has_come_back = last.is_some_and(|last| last.is_back(used));
        let at_once = match self.driver.watch.proc().has_slow_swap() {
            true => AT_ONCE_SLOW,
            false => AT_ONCE,
        };
        let got = self.request_from_kernel(memcg, above.min(at_once))?;
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.resort = Some(KernelReclaimRequest { scan, used, got });
            let (path, pages) = (
                tenant.path.display().to_string(),
                tenant.reclaimed_by_kernel.add(now, got.0),
            );
            let what = |pages| {
                format!(
                    "the kernel reclaimed {pages} pages of /{path}: pagetide cannot page them out one by one"
                )
            };
            pages.map(what).into_iter().for_each(|what| self.act(what));
        }
        Some((got, has_come_back))
    }

    /// Returns how many pages the kernel is to reclaim from a tenant that has `used` pages
    /// ([`above_limits`]). Version 1 has no memory.high, so the kernel does not reclaim for it.
    fn above_limits(&self, memcg: MemcgId, tenant: &Tenant, used: Pages) -> Pages {
        let high = tenant.limits.high.bytes();
        let high = high.filter(|_| self.groups.version == Version::V1);
        let shared = || Pages(self.driver.shared(&self.below(memcg)));
        let max = tenant.due.max.and_then(Limit::bytes);
        above_limits(used, max.map(Bytes::pages), high.map(Bytes::pages), shared)
    }

    /// Activates the pages in use of a tenant, then requests that the kernel reclaim `wanted`
    /// pages, for a slice each. Returns the number of pages reclaimed; `None` if the next call must
    /// continue before the kernel is asked.
    fn request_from_kernel(&mut self, memcg: MemcgId, wanted: Pages) -> Option<Pages> {
        let below = self.below(memcg);
        let slice = Pause::after(&self.wakeup, SLICE);
        let activated = self.driver.activate(&below, wanted, &slice);
        if activated.rest.is_some() {
            return None;
        }
        let (pause, mut left) = (Pause::after(&self.wakeup, SLICE), wanted.bytes().0);
        let hard_limit = &self.tenants.get(&memcg)?.hard_limit;
        let got = Bytes(drop_in_steps(hard_limit, &mut left, None, &pause)).pages();
        self.driver.note_reclaimed(&below, got.0);
        Some(got)
    }

    /// Requests that the kernel reclaim shared pages that were skipped, in place of pages that a
    /// user requested and the engine could not reclaim, for one slice. Returns whether that is
    /// complete.
    pub(super) fn reclaim_requested_shared(
        &mut self,
        memcg: MemcgId,
        requested: &mut RequestedReclaim,
        totals: &ReclaimTotals,
    ) -> bool {
        // On version 1 the request lowers the limit for a moment: a process that allocates
        // meanwhile may be killed if nothing can be swapped out. Nor does the kernel reclaim from a
        // group on one memory node alone.
        let may = memcg != MemcgId::ROOT
            && requested.node.is_none()
            && matches!(requested.ask, Ask::Bytes(_))
            && requested.swappiness != Some(Swappiness::FILE_ONLY)
            && (!totals.no_swap || self.groups.version == Version::V2);
        let shared = Pages(self.driver.shared(&self.below(memcg)));
        let rest = requested.pages.less(Pages(totals.evicted));
        let wanted = rest.min(shared).min(AT_ONCE_SLOW);
        let tenant = self
            .tenants
            .get(&memcg)
            .filter(|_| may && wanted > Pages(0));
        if !tenant.is_some_and(|tenant| self.may_ask_kernel(memcg, tenant)) {
            return true;
        }
        let Some(got) = self.request_from_kernel(memcg, wanted) else {
            return false;
        };
        requested.pages = requested.pages.less(got);
        requested.by_kernel += got.0;
        got.0 < wanted.0 / 4 || got >= rest
    }

    /// Makes the kernel reclaim for a tenant's pending memory.high (version 2), after the pages in
    /// use were activated. Returns the number of pages.
    pub(super) fn reclaim_above_high(&mut self, memcg: MemcgId) -> Pages {
        let (below, slice) = (self.below(memcg), Pause::after(&self.wakeup, SLICE));
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return Pages(0);
        };
        let limits = (&mut tenant.due, &tenant.hard_limit);
        let got = self.driver.reclaim_above_high(&below, limits, &slice);
        got.unwrap_or_default()
    }

    /// Writes a pending limit right after a reclaim if possible, because memory in use refaults
    /// within moments. If that is not possible, limits how much the group may grow, to less each
    /// time that memory refaulted. Returns how many fewer pages are charged because of that.
    pub(super) fn write_limit_after_reclaim(&mut self, memcg: MemcgId) -> Pages {
        self.set_pending_limits(memcg);
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return Pages(0);
        };
        let Some(max) = tenant.due.max.and_then(Limit::bytes) else {
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
    /// reclaims a little, and the usage after that becomes the next limit, down to `max`.
    /// Returns how many fewer pages are charged.
    fn step_down(&mut self, memcg: MemcgId, max: Bytes) -> Pages {
        let tenant = self.tenants.get(&memcg);
        let Some(tenant) = tenant.filter(|tenant| self.may_ask_kernel(memcg, tenant)) else {
            return Pages(0);
        };
        let pause = Pause::after(&self.wakeup, SLICE);
        let got = tenant.hard_limit.step_down(max.0, || pause.is_due());
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
