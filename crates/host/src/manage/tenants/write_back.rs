//! Writeback to a disk for tenants: from which tenants, and from which age of pages on.
//!
//! Invariant: for a tenant, the age holds that is set for the nearest tenant at or above it. For a
//! group of the host one holds only if the host's groups may be changed, and never the one of the
//! tree's root. All tenants share one budget, that of the disk. The tenant that has waited longest
//! is served first, so that no tenant uses up the budget before the others are served.

use std::time::Duration;

use engine::Millis;
use engine::memcg::MemcgId;

use super::super::IDLE_MAX;
use super::super::options::WritebackSettings;
use super::super::writeback::{Writeback, WrittenTenant};
use super::Tenants;
use super::by_path::ByPath;
use super::tenant::Tenant;

/// For each tenant, by path: how long a page must be unused before writeback.
pub type WriteBackAges = ByPath<Millis>;

impl Tenants {
    /// Replaces the settings of writeback; `None` to end it. Pages already written in the current
    /// period still count against the budget.
    pub fn set_write_back(&mut self, requested: Option<WritebackSettings>, ages: WriteBackAges) {
        let now = self.now();
        self.write_back_ages = ages;
        match (&mut self.writeback, requested) {
            (Some(writeback), Some(requested)) => writeback.ask(requested),
            (writeback, Some(requested)) => *writeback = Some(Writeback::new(requested, now)),
            (writeback, None) => *writeback = None,
        }
        if self.writeback.is_some() {
            self.driver.track_out();
        }
    }

    /// Writes the oldest swapped-out pages to the disk, if it is time for that. Returns the time
    /// until the next writeback.
    pub(super) fn write_back(&mut self, has_scanned: bool) -> Duration {
        let Some(mut writeback) = self.writeback.take() else {
            return IDLE_MAX;
        };
        let (all, may_change) = (&self.tenants, self.may_change_host());
        let ages = &self.write_back_ages;
        let written = |tenant: &Tenant| {
            Some(WrittenTenant {
                memcg: tenant.memcg,
                older_than: *tenant.given(ages, may_change)?,
                of: format!(" of /{}", tenant.path.display()),
            })
        };
        let reported = writeback.run(&mut self.driver, has_scanned, |last| {
            in_turn(all.values().filter_map(written).collect(), last)
        });
        reported.into_iter().for_each(|what| self.act(what));
        let pause = writeback.due_in(self.now()).unwrap_or(IDLE_MAX);
        self.writeback = Some(writeback);
        pause
    }
}

/// Sorts the tenants, which are in ascending order, so that the first after `last` comes first.
fn in_turn(mut all: Vec<WrittenTenant>, last: Option<MemcgId>) -> Vec<WrittenTenant> {
    let first = all.partition_point(|one| Some(one.memcg) <= last);
    let count = all.len().max(1);
    all.rotate_left(first % count);
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::by_path::nearest;
    use super::*;

    #[test]
    fn the_tenant_that_waited_longest_is_served_first() {
        let one = |memcg| WrittenTenant {
            memcg,
            older_than: Millis(1),
            of: String::new(),
        };
        let (root, first) = (MemcgId::ROOT, MemcgId::FIRST);
        let order = |last| {
            let all = in_turn(vec![one(root), one(first)], last).into_iter();
            all.map(|one| one.memcg).collect::<Vec<_>>()
        };
        assert_eq!(order(None), [root, first]);
        assert_eq!(order(Some(root)), [first, root]);
        assert_eq!(order(Some(first)), [root, first]);
        assert!(in_turn(Vec::new(), Some(root)).is_empty());
    }

    #[test]
    fn the_nearest_setting_above_applies() {
        let ages = WriteBackAges::from([
            ("ci".into(), Some(Millis(7))),
            ("ci/quiet".into(), None),
            ("web".into(), Some(Millis(9))),
        ]);
        for (path, age) in [
            ("", None),
            ("ci", Some(7)),
            ("ci/runner/a", Some(7)),
            ("ci/quiet/a", None),
            ("web", Some(9)),
            ("cinema", None),
        ] {
            let found = nearest(&ages, Path::new(path)).copied();
            assert_eq!(found, age.map(Millis), "{path}");
        }
    }
}
