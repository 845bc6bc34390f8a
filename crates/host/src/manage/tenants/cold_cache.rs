//! Page cache that a policy has leave (`cache-older-than`): what nobody maps and has been there for so long.
//!
//! Invariant: no more than the kernel itself holds for inactive and need not write first. How long a page has been there is an estimate and
//! says nothing of who reads it; what is read again and again is on the kernel's active list, and stays.

use std::ffi::OsStr;

use engine::memcg::MemcgId;
use engine::policy::AgeHistogram;
use engine::{Millis, Pages};

use super::super::pause::Pause;
use super::super::room::CACHE_FIRST_SWAPPINESS;
use super::Tenants;
use super::tenant::Tenant;
use super::under_way::PolicyOrder;
use super::unmapped::LEAST;
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
        ordered: &mut PolicyOrder,
        pause: &Pause,
    ) -> bool {
        let asked = ordered.order.cache;
        let mut left = match ordered.cache {
            Some(left) => left,
            None if asked == Pages(0) => 0,
            None => {
                // What is protected is counted from what is used now.
                self.measure_one(memcg);
                self.idle_cache(memcg, asked)
            }
        };
        if ordered.how.dry_run {
            (ordered.dropped, left) = (Pages(left / 4096), 0);
        } else if left > 0 {
            let worked = thread_cpu();
            // Version 2 can be told to take nothing else; where it cannot be told, nothing is asked.
            let swappiness = match self.groups.version {
                Version::V1 => CACHE_FIRST_SWAPPINESS,
                Version::V2 => {
                    self.say_if_it_cannot(memcg);
                    0
                }
            };
            let got = self.take_cache(memcg, (&mut left, swappiness), pause);
            ordered.dropped.0 += got / 4096;
            ordered.dropping += thread_cpu().saturating_sub(worked);
            self.measure_one(memcg);
            left = left.min(self.driver.machine.unprotected(memcg).bytes().0);
        }
        // Somebody has made one below it meanwhile.
        if left > 0 && !self.is_alone(memcg) {
            left = 0;
        }
        ordered.cache = Some(left);
        left == 0
    }

    /// Says once that no page cache leaves by itself here. (The story: on Debian 12's kernel the key was taken, and nothing came of it, without a word.)
    fn say_if_it_cannot(&mut self, memcg: MemcgId) {
        let cannot = |error: std::io::Error| error.kind() == std::io::ErrorKind::Unsupported;
        let tenant = self.tenants.get(&memcg).filter(|_| !self.said_no_cache);
        // No page, and the kernel says whether it knows the word.
        if tenant.is_some_and(|one| one.wall.reclaim(1, Some(0)).is_err_and(cannot)) {
            self.said_no_cache = true;
            let what = "page cache stays, whatever `cache-older-than` says: this kernel cannot be told to take nothing else (Linux 6.11 can)";
            self.act(what.to_owned());
        }
    }

    /// Whether the kernel would take from nobody else. Walls of `run` are their managers' at any depth. On version 1 nobody at all may be below: its reclaim
    /// goes by each group's own swappiness. (The story: of a program with groups of its own the heap left for a policy of page cache.)
    fn is_alone(&self, memcg: MemcgId) -> bool {
        let is_v1 = self.groups.version == Version::V1;
        let is_another = |name: &OsStr| is_v1 || Wall::is_of_run(name);
        let tenant = self.tenants.get(&memcg);
        // What cannot be seen may be another's.
        let has_another = |one: &Tenant| one.wall.has_any_below(is_another).unwrap_or(true);
        !tenant.is_some_and(has_another) && self.below(memcg).len() == 1
    }

    /// Of so much of it what the kernel can drop and nobody has used for long, bytes, beyond what is protected.
    fn idle_cache(&self, memcg: MemcgId, asked: Pages) -> u64 {
        if !self.is_alone(memcg) {
            return 0;
        }
        let unprotected = self.driver.machine.unprotected(memcg);
        let idle = self.droppable_cache(memcg, memcg, Wall::cache_idle);
        let most = asked.min(unprotected).bytes().0;
        let part = idle.unwrap_or(0).min(most);
        if part < LEAST { 0 } else { part }
    }
}
