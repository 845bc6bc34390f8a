//! The policy runner: passes to a policy what scans found of a tenant, and pages out what the
//! policy orders.
//!
//! Invariant: the engine's policy ([`engine::policy`]), which knows only numbers, decides. All
//! pages that are paged out are at least as old as ordered, by the age table. The policy's work
//! takes at most its share of a processor ([`WorkShare`]).

use std::time::Duration;

use engine::memcg::MemcgId;
use engine::policy::{AgeHistogram, Order, Policy, PolicySettings, Seen};
use engine::{Millis, Pages};

use super::actions::Actions;
use super::driver::{Driver, PageOutOptions};
use super::engine_sync::UsedAgain;
use super::moment::Moment;
use super::reclaim_totals::ReclaimTotals;
use super::work_share::WorkShare;
use crate::report::PolicyReport;

/// Which policy to run, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRequest {
    /// The policy and its parameters.
    pub settings: PolicySettings,
    /// Dry run: the policy decides and reports its reasons, but nothing is paged out.
    pub dry_run: bool,
}

/// What a policy needs besides the age table.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyInput {
    /// The tenant's usage, without memory that the kernel frees at will; 0 if the policy does not
    /// use it.
    pub(super) usage: Pages,
    /// Total time for which the tenant's tasks have waited for memory, in microseconds; `None` if
    /// unknown.
    pub(super) stalled_us: Option<u64>,
    /// Unmapped page cache by how long it has been there; empty if the policy does not use it.
    pub(super) cache: AgeHistogram,
}

/// Runs one policy for one tenant.
#[derive(Debug)]
pub(super) struct PolicyRunner {
    policy: Policy,
    requested: PolicyRequest,
    /// When the policy may order anything.
    share: WorkShare,
    /// Number of orders that paged out or dropped pages.
    orders: u64,
    /// Time of the scan whose ages were last passed to the policy.
    as_of: Millis,
    /// Number of pages paged out.
    evicted: u64,
    /// Number of page-cache pages dropped.
    dropped: u64,
    came_back: u64,
    actions: Actions,
}

impl PolicyRunner {
    /// Returns a policy runner that begins now.
    pub(super) fn new(requested: PolicyRequest, now: Moment) -> PolicyRunner {
        PolicyRunner {
            policy: Policy::new(requested.settings, now.millis()),
            requested,
            share: WorkShare::default(),
            orders: 0,
            as_of: now.millis(),
            evicted: 0,
            dropped: 0,
            came_back: 0,
            actions: Actions::default(),
        }
    }

    /// Returns which policy runs, and whether it is a dry run.
    pub(super) fn requested(&self) -> PolicyRequest {
        self.requested
    }

    /// Returns the interval at which generations must be opened, so that pages can be reclaimed as
    /// soon as they reach the policy's age. It is half of that age, because reclaim takes no page
    /// of the two youngest generations.
    pub(super) fn generations_apart(&self) -> Millis {
        self.policy
            .threshold()
            .map_or(Millis(0), |age| Millis(age.0 / 2))
    }

    /// Returns the time until the policy runs again; `None` if it runs after the next scan.
    pub(super) fn due_in(&self, now: Moment) -> Option<Duration> {
        let due = Duration::from_millis(self.policy.due()?.since(now.millis()).0);
        Some(due.max(self.share.pause(now)))
    }

    /// Whether the policy is to run now. `has_scanned`: a scan was made just now.
    pub(super) fn is_due(&self, now: Moment, has_scanned: bool) -> bool {
        self.due_in(now).map_or(has_scanned, |wait| wait.is_zero())
    }

    /// Whether the policy uses the tenant's usage.
    pub(super) fn goes_by_size(&self) -> bool {
        self.requested.settings.goes_by_size()
    }

    /// Whether the policy uses how long tasks wait for memory.
    pub(super) fn asks_for_stalls(&self) -> bool {
        matches!(self.requested.settings, PolicySettings::Pressure(_))
    }

    /// Passes the ages of a tenant's own pages to the policy. Returns the policy's order; `None` if
    /// it orders nothing.
    pub(super) fn decide(
        &mut self,
        driver: &mut Driver,
        memcg: MemcgId,
        measured: PolicyInput,
        moment: Moment,
    ) -> Option<Order> {
        let now = moment.millis();
        if driver.tenant_map().ids(memcg).owners().is_empty() {
            // The tenant has no process, so the next process will be of another program, and the
            // policy starts anew. Otherwise the policy would judge a database by the hour in which
            // it was down, and page out what it has just loaded.
            self.policy = Policy::new(self.requested.settings, now);
            let _ = driver.take_refaults(memcg);
            return None;
        }
        // The policy `fit` compares ages of pages with the ages at which pages were used again. The
        // latter are as of scans, so the former must be as of the last scan. Otherwise hot pages
        // seem older than all pages used again, and the tenant seems to need 0 bytes.
        self.as_of = match &self.requested.settings {
            PolicySettings::Fit(_) => Millis(driver.watch.ended_ms()),
            _ => now,
        };
        let ages = driver.ages_of(memcg, self.as_of);
        let out = match self.policy.needs_swapped_out_ages() {
            true => driver.ages_out(memcg, self.as_of),
            false => AgeHistogram::new(),
        };
        let UsedAgain {
            ages: back,
            refaults,
        } = driver.take_refaults(memcg);
        self.came_back += refaults.0;
        let order = self.policy.decide(&Seen {
            now,
            ages: &ages,
            cache: &measured.cache,
            out: &out,
            back: &back,
            refaults,
            stalled_us: measured.stalled_us,
            usage: measured.usage,
            is_dry: self.requested.dry_run,
        });
        order.filter(|_| self.share.is_open(moment))
    }

    /// Returns how the pages of an order are paged out. The engine offers all pages except those of
    /// its two youngest generations, at most [`Order::most`]. For an exact age generations are too
    /// coarse, so the age table then decides by the age of each page.
    pub(super) fn how(&self, order: &Order) -> PageOutOptions {
        PageOutOptions {
            idle_since: Some(self.as_of.since(order.older_than).0),
            dry_run: self.requested.dry_run,
            all: false,
            ..PageOutOptions::default()
        }
    }

    /// Records what an order did. The pair: totals of the pages paged out, then the number of
    /// page-cache pages that were dropped beforehand, or would have been in a dry run. `took` is
    /// the order's processor time.
    pub(super) fn note(
        &mut self,
        moment: Moment,
        order: &Order,
        (totals, dropped): (&mut ReclaimTotals, Pages),
        took: Duration,
    ) {
        totals.would_at_most(order.most);
        // `took` is processor time. On a busy host, elapsed time would include other programs'
        // work, and the pause would be too long: pages idle for 100 ms would stay for 15 s.
        self.share.note(moment, took);
        let now = moment.millis();
        self.evicted += totals.evicted;
        let pages = totals.evicted + totals.would.len() as u64;
        // An order that paged out nothing is given again and again, so it is not counted.
        self.orders += u64::from(pages + dropped.0 > 0);
        let is_dry = self.requested.dry_run;
        self.actions.note(now, pages, is_dry, &order.why);
        if !is_dry {
            self.dropped += dropped.0;
        }
        if let Some(why) = self.requested.settings.why_cache() {
            self.actions.note(now, dropped.0, is_dry, &why);
        }
    }

    /// Returns a report of the policy: its parameters, and what it did.
    pub(super) fn report(&self) -> PolicyReport {
        PolicyReport {
            name: self.requested.settings.name().to_owned(),
            dry_run: self.requested.dry_run,
            threshold_ms: self.policy.threshold().map(|age| age.0),
            limit_bytes: self.policy.limit().map(|limit| limit.0),
            orders: self.orders,
            evicted_pages: self.evicted,
            dropped_pages: self.dropped,
            came_back_pages: self.came_back,
            actions: self.actions.report(),
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::policy::Why;
    use engine::{FolioId, PageOut};

    use super::super::moment::at_ms;
    use super::*;

    const ORDER: Order = Order {
        older_than: Millis(60_000),
        most: Pages(2),
        cache: Pages(0),
        why: Why::ColdAge {
            older_than: Millis(60_000),
            every: Millis(1000),
        },
    };

    fn runner(name: &str, dry_run: bool) -> PolicyRunner {
        let settings = PolicySettings::named(name).expect("a policy");
        PolicyRunner::new(PolicyRequest { settings, dry_run }, Moment::BEGIN)
    }

    #[test]
    fn a_policy_without_a_time_of_its_own_runs_after_each_scan() {
        let runner = runner("fit", false);
        assert_eq!(runner.due_in(at_ms(5)), None);
        assert!(runner.is_due(at_ms(5), true) && !runner.is_due(at_ms(5), false));
    }

    #[test]
    fn an_expensive_order_delays_the_next_one() {
        let (mut runner, hour) = (runner("cold-age", false), Duration::from_secs(3600));
        let mut totals = ReclaimTotals::default();
        runner.note(at_ms(7), &ORDER, (&mut totals, Pages(0)), hour);
        assert_eq!(runner.due_in(at_ms(7)), Some(hour * 10));
        assert!(!runner.is_due(at_ms(7 + 35_999_999), true));
        assert!(runner.is_due(at_ms(7 + 36_000_000), false));
    }

    /// An order that pages out nothing is given again and again.
    #[test]
    fn an_order_that_did_nothing_is_not_counted() {
        let (mut runner, mut totals) = (runner("cold-age", false), ReclaimTotals::default());
        runner.note(at_ms(5), &ORDER, (&mut totals, Pages(0)), Duration::ZERO);
        assert_eq!(
            (runner.report().orders, runner.report().actions.len()),
            (0, 0)
        );
        totals.note(MemcgId::FIRST, FolioId(1), PageOut::Stored);
        runner.note(at_ms(9), &ORDER, (&mut totals, Pages(3)), Duration::ZERO);
        let report = runner.report();
        assert_eq!(
            (report.orders, report.evicted_pages, report.dropped_pages),
            (1, 1, 3)
        );
        let done = report.actions.last().expect("an action");
        assert_eq!((done.at_ms, done.is_dry), (9, false));
    }

    #[test]
    fn a_dry_run_counts_no_more_than_was_ordered_and_nothing_as_done() {
        let (mut runner, mut totals) = (runner("cold-age", true), ReclaimTotals::default());
        (1..=5).for_each(|id| totals.note_would(MemcgId::FIRST, FolioId(id)));
        runner.note(at_ms(5), &ORDER, (&mut totals, Pages(3)), Duration::ZERO);
        let report = runner.report();
        assert_eq!(
            (report.orders, report.evicted_pages, report.dropped_pages),
            (1, 0, 0)
        );
        let done = report.actions.first().expect("an action");
        assert_eq!((done.pages, done.is_dry), (ORDER.most.0, true));
    }
}
