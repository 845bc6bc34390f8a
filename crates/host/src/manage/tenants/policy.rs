//! Policies of tenants: who has which, and what they order.
//!
//! Invariant: a tenant without a policy of its own has that of the nearest tenant above it that has one, for itself: its own
//! ages, its own threshold, and its own pages alone leave. A policy that goes by size does nothing for a tenant with others
//! below it, whose memory counts to it. The host's own groups have one only where they may be changed, and only what `host` or one below it is given.

use std::time::Duration;

use engine::Pages;
use engine::machine::Ongoing;
use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::super::IDLE_MAX;
use super::super::minder::{Asked, Measured, Minder};
use super::super::tally::Tally;
use super::Tenants;
use super::by_path::ByPath;
use super::under_way::{PolicyOrder, Why};

/// Who has which.
pub type Policies = ByPath<Asked>;

impl Tenants {
    /// Replaces all policies. One that stays the same goes on with what it has learned.
    pub fn set_policies(&mut self, policies: Policies) {
        self.policies = policies;
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in all {
            self.give_policy(memcg);
        }
        self.plan_look();
    }

    /// A tenant gets the policy that is meant for it.
    pub(super) fn give_policy(&mut self, memcg: MemcgId) {
        let (now, may_change) = (self.now(), self.may_change_host());
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        let asked = tenant.given(&self.policies, may_change).copied();
        let has = tenant.minder.as_ref().map(Minder::asked);
        if has == asked {
            return;
        }
        tenant.minder = asked.map(|asked| Minder::new(asked, now));
        let path = tenant.path.display().to_string();
        // What the one before ordered is nobody's order any more. (The story: `by = "none"` and a reload, and the order went on for minutes, to its last
        // page, and was told as the next policy's.)
        let (evicted, dropped) = self.drop_ordered(memcg).unwrap_or_default();
        for (what, pages) in [("paged out", evicted), ("dropped, of files,", dropped)] {
            if pages > 0 {
                self.act(format!(
                    "{what} {pages} pages of /{path}: ordered by a policy that it has no more"
                ));
            }
        }
        // Where this cannot be now, the next look tries again (`note_caches`).
        let _ = self.update_cache_watch(memcg);
        // What came back before is none of this policy's.
        match asked {
            Some(_) => self.driver.track_refaults(memcg),
            None => self.driver.untrack_refaults(memcg),
        }
    }

    /// How far apart looks may be for all policies to work, if there are any.
    pub(super) fn look_every(&self) -> Option<Duration> {
        let policies = self.policies.values().flatten();
        let times = policies.map(|asked| asked.settings.look_every());
        times.min().map(|time| Duration::from_millis(time.0))
    }

    /// Shows policies what there is, of those whose time it is; how long none is due.
    pub(super) fn mind(&mut self, has_looked: bool) -> Duration {
        if self.policies.is_empty() {
            return IDLE_MAX;
        }
        let now = self.now();
        let is_due = |one: &Minder| one.is_due(now, has_looked);
        let minded = self
            .tenants
            .values()
            .filter(|one| one.minder.as_ref().is_some_and(is_due));
        let due: Vec<MemcgId> = minded.map(|tenant| tenant.memcg).collect();
        for memcg in due {
            self.mind_one(memcg);
        }
        let minders = self.tenants.values().filter_map(|one| one.minder.as_ref());
        let now = self.now();
        minders
            .filter_map(|one| one.due_in(now))
            .min()
            .unwrap_or(IDLE_MAX)
    }

    fn mind_one(&mut self, memcg: MemcgId) {
        let minder = self
            .tenants
            .get_mut(&memcg)
            .and_then(|one| one.minder.take());
        let Some(mut minder) = minder else {
            return;
        };
        let has_others = self.driver.machine.tree().children(memcg).next().is_some();
        let is_for_it = !(minder.goes_by_size() && has_others);
        let measured = is_for_it
            .then(|| self.measured(memcg, &minder).ok())
            .flatten();
        let order = measured.and_then(|measured| minder.decide(&mut self.driver, memcg, measured));
        // What was ordered before is done first.
        if let Some(order) = order.filter(|_| !self.is_minded(memcg)) {
            let order = self.driver.unprotected(memcg, order);
            let ordered = PolicyOrder {
                how: minder.how(&order),
                order,
                began: self.driver.spent().page_out,
                cache: None,
                dropped: Pages(0),
                dropping: Duration::ZERO,
            };
            self.set_out(memcg, Why::Policy(ordered));
        }
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.minder = Some(minder);
        }
    }

    /// What the engine is to do for an order.
    pub(super) fn step_ordered(&self, memcg: MemcgId, ordered: &PolicyOrder) -> Vec<Ongoing> {
        // What would have gone before is used still.
        let would = Pages(if ordered.how.dry_run {
            ordered.dropped.0
        } else {
            0
        });
        let unprotected = self.driver.machine.unprotected(memcg).less(would);
        let most = ordered.order.most.min(unprotected);
        vec![Ongoing::own_by_age(memcg, most, self.now())]
    }

    /// What came of it.
    pub(super) fn end_ordered(&mut self, memcg: MemcgId, ordered: &PolicyOrder, mut tally: Tally) {
        let now = self.now();
        // What others did in between counts, too: it rests a little longer.
        let took = self.driver.spent().page_out.saturating_sub(ordered.began) + ordered.dropping;
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        if ordered.how.dry_run {
            // As much less as there is page cache that would have gone before. (The story, of a reading: both together were more than is not protected.)
            let unprotected = self.driver.machine.unprotected(memcg);
            tally.would_at_most(unprotected.less(ordered.dropped));
        }
        let (path, why) = (tenant.path.display().to_string(), ordered.order.why);
        let minded = tenant.minder.as_ref().map(Minder::asked);
        if let Some(minder) = &mut tenant.minder {
            minder.note(now, &ordered.order, (&mut tally, ordered.dropped), took);
        }
        let would = tally.would.len();
        self.say_why_stuck(&path, &tally);
        if would > 0 {
            self.act(format!("would page out {would} pages of /{path}: {why}"));
        }
        let why_cache = minded.and_then(|asked| asked.settings.why_cache());
        if let (Some(why), 1..) = (why_cache, ordered.dropped.0) {
            let would = if ordered.how.dry_run {
                "would drop"
            } else {
                "dropped"
            };
            let dropped = ordered.dropped.0;
            self.act(format!(
                "{would} {dropped} pages of files that nobody maps, of /{path}: {why}"
            ));
        }
        if tally.evicted > 0 {
            self.act(format!(
                "paged out {} pages of /{path}: {why}",
                tally.evicted
            ));
        }
    }

    fn measured(&mut self, memcg: MemcgId, minder: &Minder) -> Result<Measured, Errno> {
        if !minder.goes_by_size() {
            let cache = minder.asked().settings.cache_older_than();
            let cache = cache.map(|_| self.cache_ages(memcg));
            return Ok(Measured {
                cache: cache.unwrap_or_default(),
                ..Measured::default()
            });
        }
        let tenant = self.tenant(memcg)?;
        let charged = tenant.wall.charged().map_err(|_| Errno::NODEV)?;
        // (The story: what a disk had taken counted as used, so each order asked for what had left once more, to the last page.)
        let slow = self.driver.watch.proc().has_slow_swap();
        let spare = tenant.wall.free_at_will(slow).unwrap_or(0);
        let stalled_us = match minder.asks_for_stalls() {
            true => Some(self.stalls(memcg)?.some.total_us),
            false => None,
        };
        Ok(Measured {
            usage: Pages(charged.saturating_sub(spare) / 4096),
            stalled_us,
            ..Measured::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use engine::policy::Settings;

    use super::super::by_path::{nearest, nearest_of_host};
    use super::*;

    #[test]
    fn the_nearest_above_counts() {
        let asked = |name, dry_run| Asked {
            settings: Settings::named(name).expect("a policy"),
            dry_run,
        };
        let policies = Policies::from([
            (PathBuf::new(), Some(asked("cold-age", false))),
            ("ci".into(), Some(asked("fit", true))),
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
        // The host's own groups have none of what all are given.
        let mut policies = policies;
        let of_host = |policies: &Policies| {
            nearest_of_host(policies, Path::new("host/a")).map(|of| of.settings.name())
        };
        assert_eq!(of_host(&policies), None);
        policies.insert("host".into(), Some(asked("pressure", false)));
        assert_eq!(of_host(&policies), Some("pressure"));
    }
}
