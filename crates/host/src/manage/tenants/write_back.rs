//! Whose pages go on to a disk, and how old those are.
//!
//! Invariant: a tenant has the age of the nearest one above it that is given one, itself first; of the host's own groups only where these may be changed, and not what all are given. One
//! budget is for all, the disk's; who has waited longest is served first, so that no tenant uses it up before the others are asked.

use std::path::PathBuf;
use std::time::Duration;

use engine::Millis;
use engine::memcg::MemcgId;

use super::super::IDLE_MAX;
use super::super::demote::Demoter;
use super::super::options::WriteBackAsked;
use super::Tenants;
use super::by_path::ByPath;

/// What is out for so long goes on.
pub type WriteBackAges = ByPath<Millis>;

impl Tenants {
    /// Replaces what goes on to a disk, and from where. What was written in this period stays written.
    pub fn set_write_back(&mut self, asked: Option<WriteBackAsked>, ages: WriteBackAges) {
        let now = self.now();
        self.write_back_ages = ages;
        match (&mut self.demoter, asked) {
            (Some(demoter), Some(asked)) => demoter.ask(asked),
            (demoter, Some(asked)) => *demoter = Some(Demoter::new(asked, now)),
            (demoter, None) => *demoter = None,
        }
        if self.demoter.is_some() {
            self.driver.track_out();
        }
    }

    /// Has the oldest pages written that are out, if it is time; how long it is not.
    pub(super) fn demote(&mut self, has_looked: bool) -> Duration {
        let Some(mut demoter) = self.demoter.take() else {
            return IDLE_MAX;
        };
        if demoter.is_due(has_looked) {
            demoter.begin();
            for (memcg, path, age) in self.demoted(demoter.last()) {
                let of = format!(" of /{}", path.display());
                let told = demoter.demote(&mut self.driver, (memcg, age), &of);
                told.into_iter().for_each(|told| self.act(told));
            }
        }
        let pause = demoter.due_in().unwrap_or(IDLE_MAX);
        self.demoter = Some(demoter);
        pause
    }

    /// Tenants of which something goes on, those behind `last` first.
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
    fn the_nearest_above_counts() {
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
