//! Policies of tenants: which tenant has which policy, and what the policies order.
//!
//! Invariant: a tenant without a policy of its own has the policy of the nearest tenant above it
//! that has one. That policy is applied to the tenant itself: to its own ages and own pages, with
//! its own threshold. A policy that decides by size does nothing for a tenant with tenants below
//! it, because their memory is part of its size. The host's own groups have a policy only if they
//! may be changed, and only one that is set for `host` or below it.

use std::time::Duration;

use engine::machine::Ongoing;
use engine::memcg::MemcgId;
use engine::{Bytes, Millis, Pages};
use rustix::io::Errno;

use super::super::IDLE_MAX;
use super::super::moment::Moment;
use super::super::policy_runner::{PolicyInput, PolicyRequest, PolicyRunner};
use super::super::reclaim_totals::ReclaimTotals;
use super::Tenants;
use super::by_path::ByPath;
use super::under_way::{PolicyOrder, ReclaimReason};

/// Policies by the path of the tenant.
pub type Policies = ByPath<PolicyRequest>;

impl Tenants {
    /// Replaces all policies. A policy that stays the same keeps what it has learned.
    pub fn set_policies(&mut self, policies: Policies) {
        self.policies = policies;
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in all {
            self.give_policy(memcg);
        }
        self.plan_scan();
    }

    /// Sets the policy of a tenant to the one that applies to it.
    pub(super) fn give_policy(&mut self, memcg: MemcgId) {
        let (now, may_change) = (self.now(), self.may_change_host());
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        let requested = tenant.given(&self.policies, may_change).copied();
        let has = tenant.policy_runner.as_ref().map(PolicyRunner::requested);
        if has == requested {
            return;
        }
        tenant.policy_runner = requested.map(|requested| PolicyRunner::new(requested, now));
        let path = tenant.path.display().to_string();
        // An order in progress ends together with the policy that ordered it.
        let (evicted, dropped) = self.drop_ordered(memcg).unwrap_or_default();
        for (what, pages) in [("paged out", evicted), ("dropped, of files,", dropped)] {
            if pages > 0 {
                self.act(format!(
                    "{what} {pages} pages of /{path}: ordered by a policy that the tenant no longer has"
                ));
            }
        }
        // If this fails now, the next scan tries again (`note_caches`).
        let _ = self.update_cache_watch(memcg);
        // Earlier refaults do not count for this policy.
        match requested {
            Some(_) => self.driver.track_refaults(memcg),
            None => self.driver.untrack_refaults(memcg),
        }
    }

    /// Returns the longest time between scans that all policies accept; `None` without policies.
    pub(super) fn max_scan_interval(&self) -> Option<Duration> {
        let policies = self.policies.values().flatten();
        let times = policies.map(|requested| requested.settings.max_scan_interval());
        times.min().map(|time| Duration::from_millis(time.0))
    }

    /// Runs the policies for which it is time. Returns the time until the next one.
    pub(super) fn run_policies(&mut self, has_scanned: bool, now: Moment) -> Duration {
        if self.policies.is_empty() {
            return IDLE_MAX;
        }
        let is_due = |one: &PolicyRunner| one.is_due(now, has_scanned);
        let minded = self
            .tenants
            .values()
            .filter(|one| one.policy_runner.as_ref().is_some_and(is_due));
        let due: Vec<MemcgId> = minded.map(|tenant| tenant.memcg).collect();
        for memcg in due {
            self.run_policy(memcg, self.now());
        }
        let minders = self
            .tenants
            .values()
            .filter_map(|one| one.policy_runner.as_ref());
        let now = self.now();
        minders
            .filter_map(|one| one.due_in(now))
            .min()
            .unwrap_or(IDLE_MAX)
    }

    /// Runs a tenant's policy now, and starts the reclaim that it orders.
    fn run_policy(&mut self, memcg: MemcgId, now: Moment) {
        let policy_runner = self
            .tenants
            .get_mut(&memcg)
            .and_then(|one| one.policy_runner.take());
        let Some(mut policy_runner) = policy_runner else {
            return;
        };
        let has_others = self.driver.machine.tree().children(memcg).next().is_some();
        let is_for_it = !(policy_runner.goes_by_size() && has_others);
        let measured = is_for_it
            .then(|| self.measured(memcg, &policy_runner, now).ok())
            .flatten();
        let driver = &mut self.driver;
        let order =
            measured.and_then(|measured| policy_runner.decide(driver, memcg, measured, now));
        // An earlier order of the same policy is completed first.
        if let Some(order) = order.filter(|_| !self.has_policy_order(memcg)) {
            let order = self.driver.unprotected(memcg, order);
            let ordered = PolicyOrder {
                how: policy_runner.how(&order),
                order,
                began: self.driver.spent().page_out,
                cache: None,
                dropped: Pages(0),
                dropping: Duration::ZERO,
            };
            self.start_reclaim(memcg, ReclaimReason::Policy(ordered));
        }
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.policy_runner = Some(policy_runner);
        }
    }

    /// Returns the engine's work for an order, as a list of one reclaim.
    pub(super) fn step_ordered(
        &self,
        memcg: MemcgId,
        ordered: &PolicyOrder,
        now: Millis,
    ) -> Vec<Ongoing> {
        // In a dry run, cache that would have been dropped is still charged.
        let would = Pages(if ordered.how.dry_run {
            ordered.dropped.0
        } else {
            0
        });
        let unprotected = self.driver.machine.unprotected(memcg).less(would);
        let most = ordered.order.most.min(unprotected);
        vec![Ongoing::own_by_age(memcg, most, now)]
    }

    /// Ends an order: reports its result to the policy runner, and logs it.
    pub(super) fn end_ordered(
        &mut self,
        memcg: MemcgId,
        ordered: &PolicyOrder,
        mut totals: ReclaimTotals,
    ) {
        let now = self.now();
        // This may include other reclaims that ran in between; then the policy pauses a little
        // longer.
        let took = self.driver.spent().page_out.saturating_sub(ordered.began) + ordered.dropping;
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        if ordered.how.dry_run {
            // Page cache that would have been dropped first is subtracted, because cache and pages
            // together are at most the unprotected memory.
            let unprotected = self.driver.machine.unprotected(memcg);
            totals.would_at_most(unprotected.less(ordered.dropped));
        }
        let (path, why) = (tenant.path.display().to_string(), ordered.order.why);
        let minded = tenant.policy_runner.as_ref().map(PolicyRunner::requested);
        if let Some(policy_runner) = &mut tenant.policy_runner {
            policy_runner.note(now, &ordered.order, (&mut totals, ordered.dropped), took);
        }
        self.say_why_stuck(&path, &totals, now);
        let lines = totals.in_words(&format!(" of /{path}"), &why.to_string());
        lines.into_iter().for_each(|line| self.act(line));
        let why_cache = minded.and_then(|requested| requested.settings.why_cache());
        if let (Some(why), 1..) = (why_cache, ordered.dropped.0) {
            let would = if ordered.how.dry_run {
                "would drop"
            } else {
                "dropped"
            };
            let dropped = ordered.dropped.0;
            self.act(format!(
                "{would} {dropped} pages of unmapped page cache of /{path}: {why}"
            ));
        }
    }

    /// Returns a policy's input besides the age table: only what the policy uses.
    fn measured(
        &mut self,
        memcg: MemcgId,
        policy_runner: &PolicyRunner,
        now: Moment,
    ) -> Result<PolicyInput, Errno> {
        if !policy_runner.goes_by_size() {
            let cache = policy_runner.requested().settings.cache_older_than();
            let cache = cache.map(|_| self.cache_ages(memcg, now.millis()));
            return Ok(PolicyInput {
                cache: cache.unwrap_or_default(),
                ..PolicyInput::default()
            });
        }
        let tenant = self.tenant(memcg)?;
        let charged = tenant.hard_limit.charged().map_err(|_| Errno::NODEV)?;
        // Swapped-out pages already written to a disk do not count as used. Otherwise each order
        // would request again what was paged out before.
        let slow = self.driver.watch.proc().has_slow_swap();
        let spare = tenant.hard_limit.free_at_will(slow).unwrap_or(0);
        let stalled_us = match policy_runner.asks_for_stalls() {
            true => Some(self.stalls(memcg)?.some.total_us),
            false => None,
        };
        Ok(PolicyInput {
            usage: Bytes(charged.saturating_sub(spare)).pages(),
            stalled_us,
            ..PolicyInput::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use engine::policy::PolicySettings;

    use super::super::by_path::{nearest, nearest_of_host};
    use super::*;

    #[test]
    fn the_nearest_setting_above_applies() {
        let requested = |name, dry_run| PolicyRequest {
            settings: PolicySettings::named(name).expect("a policy"),
            dry_run,
        };
        let policies = Policies::from([
            (PathBuf::new(), Some(requested("cold-age", false))),
            ("ci".into(), Some(requested("fit", true))),
            ("ci/quiet".into(), None),
        ]);
        for (path, name) in [
            ("", Some("cold-age")),
            ("web", Some("cold-age")),
            ("web/a/b", Some("cold-age")),
            ("ci", Some("fit")),
            ("ci/runner", Some("fit")),
            ("ci/quiet", None),
            ("ci/quiet/a", None),
            ("cinema", Some("cold-age")),
        ] {
            let of = nearest(&policies, Path::new(path));
            assert_eq!(of.map(|of| of.settings.name()), name, "{path}");
        }
        assert_eq!(nearest(&Policies::new(), Path::new("a")), None);
        // The root's policy does not apply to the host's own groups.
        let mut policies = policies;
        let of_host = |policies: &Policies| {
            nearest_of_host(policies, Path::new("host/a")).map(|of| of.settings.name())
        };
        assert_eq!(of_host(&policies), None);
        policies.insert("host".into(), Some(requested("pressure", false)));
        assert_eq!(of_host(&policies), Some("pressure"));
    }
}
