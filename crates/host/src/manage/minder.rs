//! A policy at work on a tenant: it is shown what looks told, and what it orders leaves.
//!
//! Invariant: what decides is the engine's ([`engine::policy`]), which knows numbers alone; what leaves is exactly as old as
//! ordered, by the books. Whatever it orders takes no more of a processor than other work of ours may.

use std::time::{Duration, Instant};

use engine::memcg::MemcgId;
use engine::policy::{AgeHistogram, Order, Policy, Seen, Settings};
use engine::{Millis, Pages};

use super::WORK_SHARE;
use super::actions::Actions;
use super::driver::{Driver, How};
use super::feed::Back;
use super::tally::Tally;
use crate::report::PolicyReport;

/// What a policy is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Which, and its numbers.
    pub settings: Settings,
    /// It decides and says why, and nothing leaves.
    pub dry_run: bool,
}

/// What the policy is shown that is not in the books.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// All that the tenant uses, without page cache that nobody maps; nothing where no policy goes by it.
    pub(super) usage: Pages,
    /// How long its tasks have waited for memory, microseconds; none where nobody knows.
    pub(super) stalled_us: Option<u64>,
    /// Page cache that nobody maps by how long it has been there, where the policy asks.
    pub(super) cache: AgeHistogram,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Minder {
    policy: Policy,
    asked: Asked,
    /// Nothing is ordered before.
    paused_until: Instant,
    orders: u64,
    /// When pages were as old as it was shown last.
    as_of: Millis,
    evicted: u64,
    dropped: u64,
    came_back: u64,
    actions: Actions,
}

impl Minder {
    /// One that begins now, milliseconds of the watch.
    pub(super) fn new(asked: Asked, now: Millis) -> Minder {
        Minder {
            policy: Policy::new(asked.settings, now),
            asked,
            paused_until: Instant::now(),
            orders: 0,
            as_of: now,
            evicted: 0,
            dropped: 0,
            came_back: 0,
            actions: Actions::default(),
        }
    }

    pub(super) fn asked(&self) -> Asked {
        self.asked
    }

    /// How far generations must be apart for pages of the age at which they leave to be offered in time: half of it, as they
    /// must have left the youngest two. (Where generations were opened by the age itself, pages left when they had been idle
    /// for three times as long.)
    pub(super) fn generations_apart(&self) -> Millis {
        self.policy
            .threshold()
            .map_or(Millis(0), |age| Millis(age.0 / 2))
    }

    /// How long until it wants to be shown something; none for at the next look.
    pub(super) fn due_in(&self, now: Millis) -> Option<Duration> {
        let due = self.policy.due()?;
        let pause = self.paused_until.saturating_duration_since(Instant::now());
        Some(Duration::from_millis(due.since(now).0).max(pause))
    }

    /// Whether it is to be shown something now, right after a look or not.
    pub(super) fn is_due(&self, now: Millis, has_looked: bool) -> bool {
        self.due_in(now).map_or(has_looked, |wait| wait.is_zero())
    }

    /// Whether it goes by what is used.
    pub(super) fn goes_by_size(&self) -> bool {
        self.asked.settings.goes_by_size()
    }

    /// Whether it goes by how long tasks wait.
    pub(super) fn asks_for_stalls(&self) -> bool {
        matches!(self.asked.settings, Settings::Pressure(_))
    }

    /// Shows it what there is of a tenant's own pages; what is to leave, if anything is.
    pub(super) fn decide(
        &mut self,
        driver: &mut Driver,
        memcg: MemcgId,
        measured: Measured,
    ) -> Option<Order> {
        let now = Millis(driver.watch.elapsed_ms());
        if driver.homes().ids(memcg).owners().is_empty() {
            // Nobody is in it: what comes next is another program, of which nothing is known. (The story: a database that was down for an hour was
            // judged by an hour of nothing, and what it had loaded left at once.)
            self.policy = Policy::new(self.asked.settings, now);
            let _ = driver.take_refaults(memcg);
            return None;
        }
        // `fit` compares ages with those that pages had when they were used again, which are as of looks. (The story: 5 ms after a look all that was
        // hot was "older than 5 ms", nothing so old had come back, and it needed 0 bytes.)
        self.as_of = match &self.asked.settings {
            Settings::Fit(_) => Millis(driver.watch.ended_ms()),
            _ => now,
        };
        let ages = driver.ages_of(memcg, self.as_of);
        let out = match self.policy.asks_for_out() {
            true => driver.ages_out(memcg, self.as_of),
            false => AgeHistogram::new(),
        };
        let Back {
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
            is_dry: self.asked.dry_run,
        });
        order.filter(|_| Instant::now() >= self.paused_until)
    }

    /// How pages are to leave that were ordered now. The engine offers every page but those of its youngest two generations
    /// ([`Order::most`] at most), and the books know each one's age: generations cannot tell to the look.
    pub(super) fn how(&self, order: &Order) -> How {
        How {
            idle_since: Some(self.as_of.since(order.older_than).0),
            dry_run: self.asked.dry_run,
            all: false,
            ..How::default()
        }
    }

    /// What came of an order: of memory, of page cache that went before or would have, and what it took of a processor.
    pub(super) fn note(
        &mut self,
        now: Millis,
        order: &Order,
        (tally, dropped): (&mut Tally, Pages),
        took: Duration,
    ) {
        tally.would_at_most(order.most);
        // By the clock, one pass on a busy host counted the others' time as its own work, and what was idle for 100 ms
        // stayed for 15 s.
        self.paused_until = Instant::now() + took * WORK_SHARE;
        self.evicted += tally.evicted;
        let pages = tally.evicted + tally.would.len() as u64;
        // One of which nothing came is asked for again each time.
        self.orders += u64::from(pages + dropped.0 > 0);
        let is_dry = self.asked.dry_run;
        self.actions.note(now, pages, is_dry, &order.why);
        if !is_dry {
            self.dropped += dropped.0;
        }
        if let Some(why) = self.asked.settings.why_cache() {
            self.actions.note(now, dropped.0, is_dry, &why);
        }
    }

    /// What it is, and what it did.
    pub(super) fn report(&self) -> PolicyReport {
        PolicyReport {
            name: self.asked.settings.name().to_owned(),
            dry_run: self.asked.dry_run,
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
