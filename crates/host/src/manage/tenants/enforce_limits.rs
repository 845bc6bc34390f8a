//! Enforces the limits of all tenants, by the usage that the kernel measures.
//!
//! Invariant: usage is never the sum of pages that we found. Usage is what the kernel charges to a
//! group with all groups below it. Each byte counts for the tenant from which the engine may
//! reclaim it ([`Tenants::used`]). The engine computes how much must be reclaimed for a limit, and
//! chooses the tenants to reclaim from by their protection.

use std::time::Duration;

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::vmscan::{Headroom, PAGES_PER_MEASUREMENT};
use engine::{Bytes, Millis, Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::moment::Moment;
use super::super::reclaim_totals::ReclaimTotals;
use super::Tenants;
use super::limit_controller::{LimitCounters, LimitStep, LimitUsage};
use super::tenant::Tenant;
use super::under_way::ReclaimReason;
use crate::system::cgroup::Version;

/// Maximum number of page-cache pages that the kernel drops between two measurements of usage.
/// Twice as many as for a single target (`super::super::act`): here the kernel drops them in
/// several calls, and stops at the end of a slice.
const CACHE_AT_ONCE: u64 = 8192;
/// Minimum time between two log lines about full swap.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// Time until a failed measurement of usage is repeated.
const AGAIN: Duration = Duration::from_millis(200);

impl Tenants {
    /// Measures the usage of all tenants for the engine, and updates the kernel's protection.
    pub(super) fn measure(&mut self) {
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in all {
            if self.measure_one(memcg) {
                self.note_events(memcg);
            }
        }
        self.protect();
    }

    /// Measures the usage of one tenant for the engine. Returns whether the usage could be read.
    pub(super) fn measure_one(&mut self, memcg: MemcgId) -> bool {
        let tenant = self.tenants.get(&memcg);
        let Some(used) = tenant.and_then(|tenant| self.used(tenant).ok()) else {
            return false;
        };
        self.driver.machine.set_measured(memcg, Bytes(used).pages());
        true
    }

    /// Starts reclaim from all tenants that are above their limits. Returns the time until the next
    /// measurement.
    pub(super) fn enforce_limits(&mut self) -> Duration {
        let held = self.tenants.values().filter(|tenant| tenant.has_limit());
        let held: Vec<MemcgId> = held.map(|tenant| tenant.memcg).collect();
        let mut pause = IDLE_MAX;
        for memcg in held {
            let now = self.now();
            // A tenant that is reclaimed from now is measured when the reclaim ends.
            if self.is_reclaimed_for_limit(memcg) {
                continue;
            }
            let tenant = self.tenants.get(&memcg);
            let wait = tenant.map_or(IDLE_MAX, |tenant| tenant.limit.wait(now));
            pause = pause.min(match wait.is_zero() {
                true => self.enforce_limit(memcg, now),
                false => wait,
            });
        }
        pause
    }

    /// Measures one tenant, and starts reclaim from it if necessary. Returns the time until its
    /// next measurement.
    fn enforce_limit(&mut self, memcg: MemcgId, now: Moment) -> Duration {
        let measured = match self.measure_for_limit(memcg, now) {
            Ok(measured) => measured,
            Err(wait) => return self.measure_after(memcg, wait),
        };
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return IDLE_MAX;
        };
        let hard_limit = &tenant.hard_limit;
        let counters = LimitCounters {
            hits: &|| hard_limit.times_met().ok(),
            majors: &|| hard_limit.majors().ok(),
        };
        let most = match tenant.limit.step(now, &measured, &counters) {
            LimitStep::Wait(wait) => return self.measure_after(memcg, wait),
            LimitStep::DropFirst => {
                self.note_pressure(memcg);
                match self.enforce_by_kernel(memcg, &measured) {
                    Some(wait) => return wait,
                    None => measured.wanted.pages,
                }
            }
            LimitStep::LeaveToKernel {
                left,
                is_thrashing,
                pages,
            } => {
                if self.may_leave_to_kernel(memcg, is_thrashing, now) {
                    // Clients that poll for pressure must be notified even if only the kernel
                    // reclaims.
                    self.note_pressure(memcg);
                    return self.measure_after(memcg, left);
                }
                pages
            }
            LimitStep::Reclaim(pages) => pages,
        };
        self.measure_after(memcg, IDLE_MAX);
        self.driver.machine.set_measured(memcg, measured.usage);
        let why = ReclaimReason::Limit {
            usage: measured.usage,
            left: measured.wanted.left,
            most: Pages(most.0.min(PAGES_PER_MEASUREMENT)),
            has_hard_limit: measured.is_enforced,
        };
        self.start_reclaim(memcg, why);
        Duration::ZERO
    }

    /// Measures what decides for the limits of a tenant, and writes pending limits. Returns the
    /// time until the next measurement, if usage cannot be read or is not limited.
    fn measure_for_limit(&mut self, memcg: MemcgId, now: Moment) -> Result<LimitUsage, Duration> {
        let has_hard_limit = memcg != MemcgId::ROOT || self.budget_of_host().is_none();
        let used = self.tenants.get(&memcg).map(|tenant| self.used(tenant));
        self.set_pending_limits(memcg);
        self.say_what_left(memcg, 0, now);
        let tenant = self.tenants.get_mut(&memcg).ok_or(IDLE_MAX)?;
        // If the tenant's group is gone, the next scan drops the tenant. Otherwise the host may
        // lack descriptors for a moment.
        let used = used.and_then(Result::ok).ok_or(AGAIN)?;
        let usage = Bytes(used).pages();
        let wanted = Headroom::wanted(tenant.limits.by_usage(), usage).ok_or(IDLE_MAX)?;
        let frees_first = wanted.pages > Pages(0) && has_hard_limit;
        let files = (&mut tenant.files_in_use, &tenant.hard_limit);
        let files_are_dropped = frees_first && self.driver.drops_files_in_use(memcg, files, now);
        let tenant = self.tenants.get(&memcg).ok_or(IDLE_MAX)?;
        let free = match frees_first {
            true => self.free_at_will(tenant, files_are_dropped),
            false => Pages(0),
        };
        Ok(LimitUsage {
            usage,
            wanted,
            free,
            files_are_dropped,
            is_enforced: has_hard_limit && tenant.is_hard_limited(),
        })
    }

    /// Whether only the kernel may reclaim from a tenant for a while. Logs that the tenant is
    /// thrashing, if it is time.
    fn may_leave_to_kernel(&mut self, memcg: MemcgId, is_thrashing: bool, now: Moment) -> bool {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return false;
        };
        let times = is_thrashing.then(|| tenant.left_to_kernel.add(now, 1));
        let path = tenant.path.display();
        let what = times.flatten().map(|times| format!(
            "/{path} is thrashing, so only the kernel reclaims from it at its memory.max ({times} times): more than a fifth of it was swapped in within a second"
        ));
        what.into_iter().for_each(|what| self.act(what));
        let tenant = self.tenants.get(&memcg);
        tenant.is_some_and(|tenant| self.may_ask_kernel(memcg, tenant))
    }

    /// Returns the part of a tenant's usage that the kernel frees first and at no cost: unmapped
    /// page cache, unless it drops files in use with it; and swapped-out pages that are already
    /// written to a disk but still charged.
    fn free_at_will(&self, tenant: &Tenant, files_are_dropped: bool) -> Pages {
        let slow = self.driver.watch.proc().has_slow_swap();
        let bytes = match files_are_dropped {
            false => tenant.hard_limit.free_at_will(slow),
            true if slow => tenant.hard_limit.written(),
            true => Ok(0),
        };
        Bytes(bytes.unwrap_or(0)).pages()
    }

    /// Writes those pending limits to the tenant's group that the kernel accepts now.
    pub(super) fn set_pending_limits(&mut self, memcg: MemcgId) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        let refused = tenant.due.put(&tenant.hard_limit);
        for what in tenant.refusals_in_words(&refused) {
            self.act(what);
        }
    }

    /// Sets that a tenant is measured next after `wait`. Returns that time.
    fn measure_after(&mut self, memcg: MemcgId, wait: Duration) -> Duration {
        let now = self.now();
        match self.tenants.get_mut(&memcg) {
            Some(tenant) => tenant.limit.measure_after(now, wait),
            None => wait,
        }
    }

    /// Requests that the kernel free memory for a limit that it does not enforce yet: page cache
    /// first, unless it drops files in use with it. Returns the time until the next measurement;
    /// `None` if hardly any was freed, so that the engine must reclaim.
    fn enforce_by_kernel(&mut self, memcg: MemcgId, measured: &LimitUsage) -> Option<Duration> {
        let most = Pages(measured.wanted.pages.0.min(CACHE_AT_ONCE));
        let got = match measured.files_are_dropped {
            true => Pages(0),
            false => self.drop_cache(memcg, most),
        };
        let tenant = self.tenants.get_mut(&memcg)?;
        let Some(wait) = tenant.limit.dropped((got, most), measured) else {
            return self.enforce_by_swap_cache(memcg, measured, most);
        };
        // The limit is written at once: programs that read files again would fill the cache again.
        self.set_pending_limits(memcg);
        Some(self.measure_after(memcg, wait))
    }

    /// Requests that the kernel free clean swap cache: pages with a written copy on a disk. They
    /// are on the anonymous lists, so requests for page cache do not reach them. Pages still being
    /// written are requested again, some times ([`super::swap_cache`]). Without these requests,
    /// version 1 paged out a whole tenant for a `memory.high` that it exceeded only by a part.
    ///
    /// Returns the time until the next measurement; `None` if the engine must reclaim.
    fn enforce_by_swap_cache(
        &mut self,
        memcg: MemcgId,
        measured: &LimitUsage,
        most: Pages,
    ) -> Option<Duration> {
        if !self.driver.watch.proc().has_slow_swap() {
            return None;
        }
        let tenant = self.tenants.get_mut(&memcg)?;
        let written = Bytes(tenant.hard_limit.written().unwrap_or(0)).pages();
        if !tenant.limit.takes_swap_cache(written, measured) {
            return None;
        }
        let got = tenant.hard_limit.reclaim(most.bytes().0, None).unwrap_or(0);
        tenant.limit.note_swap_cache(Bytes(got).pages(), most);
        Some(self.measure_after(memcg, AGAIN))
    }

    /// Returns the engine's work for a limit, as a list of one reclaim.
    pub(super) fn step_for_limit(memcg: MemcgId, most: Pages, now: Millis) -> Vec<Ongoing> {
        let request = ReclaimRequest {
            reason: ScanReason::Direct,
            nr: most,
            swappiness: None,
            now,
        };
        vec![Ongoing::once(memcg, request)]
    }

    /// Logs why no more pages can be swapped out: full swap at most once a minute, each refusal of
    /// the kernel once. Otherwise limits and policies would fail silently.
    pub(super) fn say_why_stuck(&mut self, name: &str, totals: &ReclaimTotals, now: Moment) {
        if totals.no_swap && self.said_no_swap.takes(now, SAID_AGAIN) {
            self.act(format!(
                "/{name} is not paged out: no free swap (`pagetide swap status`)"
            ));
        }
        if let Some(refused) = totals.refused.as_ref()
            && self.said_refused.as_ref() != Some(refused)
        {
            self.said_refused = Some(refused.clone());
            self.act(format!(
                "the kernel refused to page out pages of /{name}: {refused}"
            ));
        }
    }

    /// Ends a reclaim for a limit. The tuple: usage when the reclaim began, headroom at that time
    /// (both in pages), then the maximum number of pages that the engine was to reclaim.
    pub(super) fn end_limit_reclaim(
        &mut self,
        memcg: MemcgId,
        totals: &ReclaimTotals,
        (usage, left, most): (Pages, Pages, Pages),
    ) {
        self.note_pressure(memcg);
        let now = self.now();
        let (ours, mut got) = (totals.evicted, Pages(totals.evicted));
        // On version 1 the request lowers the limit for a moment: a process that allocates
        // meanwhile may be killed if nothing can be swapped out.
        let may_ask = !totals.no_swap || self.groups.version == Version::V2;
        let requested = match may_ask && !Headroom::is_worth_it(got, most) {
            true => self.ask_kernel(memcg, now),
            false => Some((Pages(0), false)),
        };
        let Some((kernels, is_back)) = requested else {
            // The next reclaim continues to activate pages in use, and then asks the kernel.
            self.measure_after(memcg, Duration::ZERO);
            self.say_what_left(memcg, ours, now);
            return;
        };
        let closed = match may_ask {
            true => self.write_limit_after_reclaim(memcg),
            false => Pages(0),
        };
        // Memory that was refaulted at once does not count as reclaimed, so the next tries come
        // ever later.
        got.0 += if is_back { 0 } else { kernels.0 } + closed.0;
        if !Headroom::is_worth_it(got, most) {
            got.0 += self.reclaim_above_high(memcg).0;
        }
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        let wait = tenant.limit.reclaimed((got, most), (usage, left));
        let name = tenant.path.display().to_string();
        self.measure_after(memcg, wait);
        self.say_why_stuck(&name, totals, now);
        self.say_what_left(memcg, ours, now);
    }

    /// Logs the number of pages paged out for a tenant's limits, if it is time; `ours` are new.
    fn say_what_left(&mut self, memcg: MemcgId, ours: u64, now: Moment) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        if let Some(pages) = tenant.held.add(now, ours) {
            let path = tenant.path.display();
            let what = format!(
                "paged out {pages} pages of /{path}: over memory.high, or too close to memory.max"
            );
            self.act(what);
        }
    }
}
