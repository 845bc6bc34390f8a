//! Page cache that a policy has leave (`cache-older-than`): what nobody maps and has been there for so long.
//!
//! Invariant: no more than the kernel itself holds for inactive and need not write first. How long a page has been there is an estimate and
//! says nothing of who reads it; what is read again and again is on the kernel's active list, and stays.

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::{Millis, Pages};

use super::super::pause::Pause;
use super::Tenants;
use super::under_way::Ordered;
use super::unmapped::{ALMOST, LEAST};
use crate::system::cgroup::Version;
use crate::system::thread_cpu;
use crate::wall::Wall;

impl Tenants {
    /// Its page cache by how long it has been there; of one with others below it nobody can tell what is its own.
    pub(super) fn cache_ages(&self, memcg: MemcgId) -> AgeHistogram {
        let mut ages = AgeHistogram::new();
        let now = self.now();
        let tenant = self.tenants.get(&memcg);
        let is_alone = self.is_alone(memcg);
        let nodes = tenant
            .filter(|_| is_alone)
            .and_then(|one| one.cache.as_ref());
        for (since, bytes) in nodes
            .into_iter()
            .flatten()
            .flat_map(|node| node.files.all())
        {
            ages.add(now.since(Millis(since)), Pages(bytes / 4096));
        }
        ages
    }

    /// A slice of what was ordered of it; whether that is all. In a dry run nothing goes, and all of it would have.
    pub(super) fn drop_ordered_cache(
        &mut self,
        memcg: MemcgId,
        ordered: &mut Ordered,
        pause: &Pause,
    ) -> bool {
        let asked = ordered.order.cache;
        let mut left = match ordered.cache {
            Some(left) => left,
            None => self.idle_cache(memcg, asked),
        };
        if ordered.how.dry_run {
            (ordered.dropped, left) = (Pages(left / 4096), 0);
        } else if left > 0 {
            let worked = thread_cpu();
            // Version 2 can be told to take nothing else; where it cannot be told, nothing is asked.
            let swappiness = match self.groups.version {
                Version::V1 => ALMOST,
                Version::V2 => 0,
            };
            let got = self.take_cache(memcg, (&mut left, swappiness), pause);
            ordered.dropped.0 += got / 4096;
            ordered.dropping += thread_cpu().saturating_sub(worked);
            // What is protected is counted from what is used now.
            self.measure_one(memcg);
        }
        // Somebody has made one below it meanwhile.
        if left > 0 && !self.is_alone(memcg) {
            left = 0;
        }
        ordered.cache = Some(left);
        left == 0
    }

    /// Whether it has nobody below it, walls of `run` counted: the kernel would take from these, too.
    fn is_alone(&self, memcg: MemcgId) -> bool {
        let dir = self.tenants.get(&memcg).map(|one| &one.wall.group().dir);
        let folders = dir.into_iter().flat_map(|dir| Wall::folders(dir));
        let mut names = folders.filter_map(|folder| folder.file_name().map(ToOwned::to_owned));
        self.below(memcg).len() == 1 && !names.any(|name| Wall::is_of_run(&name))
    }

    /// Of so much of it what the kernel can drop and nobody has used for long, bytes, beyond what is protected.
    fn idle_cache(&self, memcg: MemcgId, asked: Pages) -> u64 {
        if asked == Pages(0) || !self.is_alone(memcg) {
            return 0;
        }
        let unprotected = self.driver.machine.unprotected(memcg);
        let idle = self.spare_cache(memcg, memcg, Wall::cache_idle);
        let most = asked.min(unprotected).bytes().0;
        let part = idle.unwrap_or(0).min(most);
        if part < LEAST { 0 } else { part }
    }
}
