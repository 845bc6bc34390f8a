//! Writeback to a disk for tenants: from which tenants, and from which age of pages on.
//!
//! Invariant: for a tenant, the age holds that is set for the nearest tenant at or above it. For a
//! group of the host one holds only if the host's groups may be changed, and never the one of the
//! tree's root. All tenants share one budget, that of the disk. The tenant that has waited longest
//! is served first, so that no tenant uses up the budget before the others are served.

use std::path::PathBuf;
use std::time::Duration;

use engine::Millis;
use engine::memcg::MemcgId;

use super::super::IDLE_MAX;
use super::super::options::WritebackSettings;
use super::super::writeback::Writeback;
use super::Tenants;
use super::by_path::ByPath;

/// For each tenant, by path: how long a page must be unused before writeback.
pub type WriteBackAges = ByPath<Millis>;

impl Tenants {
    /// Replaces the settings of writeback; `None` to end it. Pages already written in the current
    /// period still count against the budget.
    pub fn set_write_back(&mut self, requested: Option<WritebackSettings>, ages: WriteBackAges) {
        let now = self.now();
        self.write_back_ages = ages;
        match (&mut self.demoter, requested) {
            (Some(demoter), Some(requested)) => demoter.ask(requested),
            (demoter, Some(requested)) => *demoter = Some(Writeback::new(requested, now)),
            (demoter, None) => *demoter = None,
        }
        if self.demoter.is_some() {
            self.driver.track_out();
        }
    }

    /// Writes the oldest swapped-out pages to the disk, if it is time for that. Returns the time
    /// until the next writeback.
    pub(super) fn demote(&mut self, has_scanned: bool) -> Duration {
        let Some(mut demoter) = self.demoter.take() else {
            return IDLE_MAX;
        };
        if demoter.is_due(has_scanned) {
            demoter.begin();
            for (memcg, path, age) in self.demoted(demoter.last()) {
                let of = format!(" of /{}", path.display());
                let reported = demoter.demote(&mut self.driver, (memcg, age), &of);
                reported.into_iter().for_each(|reported| self.act(reported));
            }
        }
        let pause = demoter.due_in().unwrap_or(IDLE_MAX);
        self.demoter = Some(demoter);
        pause
    }

    /// Returns the tenants with writeback, beginning with the first after `last`: id, path, then
    /// age.
    fn demoted(&self, last: Option<MemcgId>) -> Vec<(MemcgId, PathBuf, Millis)> {
        let may_change = self.may_change_host();
        let given = self.tenants.values().filter_map(|tenant| {
            let age = *tenant.given(&self.write_back_ages, may_change)?;
            Some((tenant.memcg, tenant.path.clone(), age))
        });
        let mut all: Vec<(MemcgId, PathBuf, Millis)> = given.collect();
        let first = all.partition_point(|(memcg, ..)| Some(*memcg) <= last);
        let all_of_them = all.len().max(1);
        all.rotate_left(first % all_of_them);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::by_path::nearest;
    use super::*;

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
