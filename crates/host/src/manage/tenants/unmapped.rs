//! Page cache of tenants that nobody maps: it counts as bytes of files, and leaves by the kernel's hand.
//!
//! Invariants: the cache of a tenant is measured only where somebody asks for its reports, or its policy goes by the
//! cache's age. The kernel, not the engine, drops it, and on version 1 the kernel knows no protection, and goes by each
//! group's own swappiness: so we ask it of leaf tenants, for no more than what exceeds their protection. We ask it of a
//! tenant with children as the last resort, and only if none of these is protected.

use std::ffi::OsString;
use std::io;

use engine::Pages;
use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::super::pause::Pause;
use super::super::room::CACHE_FIRST_SWAPPINESS;
use super::cache::NodeCache;
use super::tenant::Tenant;
use super::{SLICE, Tenants};
use crate::system::cgroup::{Cache, Version, parse_cache, parse_node_caches};
use crate::wall::Wall;

/// Less than this, bytes, is not asked of the kernel.
pub(super) const LEAST: u64 = 1 << 20;
/// How much page cache the kernel may drop of a group, as the group tells it: for limits all that nobody maps, and what was asked for by name comes
/// from what need not be written first.
pub(super) type CacheMeasure = fn(&Wall) -> io::Result<u64>;
/// So much is asked of it at a time, bytes: a few milliseconds, as long as nothing is to be written.
const STEP: u64 = 8 << 20;

impl Tenants {
    /// From now on its unmapped page cache counts in its ages.
    ///
    /// # Errors
    /// ENODEV.
    pub fn watch_cache(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        self.set_reported(memcg, true);
        self.update_cache_watch(memcg)
    }

    /// Nobody asks for reports any more.
    pub fn forget_cache(&mut self, memcg: MemcgId) {
        self.set_reported(memcg, false);
        // Nothing is read for that.
        let _ = self.update_cache_watch(memcg);
    }

    fn set_reported(&mut self, memcg: MemcgId, is_reported: bool) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.is_reported = is_reported;
        }
    }

    /// Begins to watch it, or ends that, as reports and its policy ask.
    pub(super) fn update_cache_watch(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        let tenant = self.tenant(memcg)?;
        let is_asked = tenant.is_reported || tenant.asks_for_cache();
        if is_asked == tenant.cache.is_some() {
            return Ok(());
        }
        let mut ages = None;
        if is_asked {
            let caches = self.caches(tenant)?;
            let nodes = ages.insert(vec![NodeCache::default(); caches.len()]);
            note(nodes, self.driver.watch.elapsed_ms(), &caches);
        }
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.cache = ages;
        }
        Ok(())
    }

    /// A look: how much there is now.
    pub(super) fn note_caches(&mut self) {
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in &all {
            // One that could not be read when it was asked for; nothing is read where nothing has changed.
            let _ = self.update_cache_watch(*memcg);
        }
        self.note_caches_of(&all);
    }

    /// The same of these, where it is watched.
    fn note_caches_of(&mut self, of: &[MemcgId]) {
        let now = self.driver.watch.elapsed_ms();
        for memcg in of {
            let watched = self.tenants.get(memcg).filter(|one| one.cache.is_some());
            let Some(Ok(caches)) = watched.map(|one| self.caches(one)) else {
                continue;
            };
            let tenant = self.tenants.get_mut(memcg);
            if let Some(ages) = tenant.and_then(|one| one.cache.as_mut()) {
                note(ages, now, &caches);
            }
        }
    }

    /// How much of its unmapped page cache is older than everything else that would be left of it if so many bytes went.
    pub(super) fn cache_to_take(&self, memcg: MemcgId, bytes: u64) -> u64 {
        let own = self.tenants.get(&memcg);
        let own = own.filter(|one| !self.has_others_below(one));
        let clean = own.and_then(|one| one.wall.cache_clean().ok()).unwrap_or(0);
        let part = self.cache_among_oldest(memcg, bytes).min(clean);
        match part < LEAST || self.below(memcg).len() > 1 {
            true => 0,
            false => part,
        }
    }

    /// Takes so much of it until it is time to give way; how many bytes went, and what is `left` then.
    pub(super) fn take_cache(
        &mut self,
        memcg: MemcgId,
        (left, swappiness): (&mut u64, u8),
        pause: &Pause,
    ) -> u64 {
        let Ok(tenant) = self.tenant(memcg) else {
            *left = 0;
            return 0;
        };
        let got = drop_in_steps(&tenant.wall, left, swappiness, pause);
        self.note_caches_of(&[memcg]);
        got
    }

    /// Has the kernel drop page cache for a limit that no wall holds yet, of it and of those below it, who has most of it first: no more than
    /// `most`, and no longer than a slice. How much went.
    pub(super) fn drop_cache(&self, memcg: MemcgId, most: Pages) -> Pages {
        let pause = Pause::after(&self.bell, SLICE);
        let (most, mut got) = (most.bytes().0, 0);
        for (spare, id) in self.who_drops(memcg, Wall::cache_unmapped) {
            if let Ok(tenant) = self.tenant(id) {
                let mut left = spare.min(most - got);
                got += drop_in_steps(&tenant.wall, &mut left, CACHE_FIRST_SWAPPINESS, &pause);
            }
            if got >= most || pause.is_due() {
                break;
            }
        }
        Pages(got / 4096)
    }

    /// Of whom the kernel may drop such cache for a limit of one above, or of itself: so many bytes, the most first.
    pub(super) fn who_drops(&self, target: MemcgId, measure: CacheMeasure) -> Vec<(u64, MemcgId)> {
        let (all, tree) = (self.below(target), self.driver.machine.tree());
        let leaves = all.iter().filter(|id| tree.children(**id).next().is_none());
        let spare =
            leaves.filter_map(|id| Some((self.droppable_cache(target, *id, measure)?, *id)));
        let mut found: Vec<(u64, MemcgId)> = spare.filter(|(spare, _)| *spare >= LEAST).collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        let of_host = self.tenants.get(&target).is_some_and(|one| one.of_host);
        // Made tenants and the host's groups lie below one another in our tree alone, or `has_others_below` says so.
        let is_protected_one = |id: &MemcgId| {
            let one = self.tenants.get(id).filter(|one| one.of_host == of_host);
            one.is_some_and(|one| one.is_protected() || self.has_others_below(one))
        };
        // The target itself comes last: its own cache, and what removed children left. Asked of the target, the kernel
        // takes from its whole subtree, so we ask only if nobody below is protected.
        if all.len() > 1 && !all.iter().skip(1).any(is_protected_one) {
            found.extend(
                self.droppable_cache(target, target, measure)
                    .map(|spare| (spare, target)),
            );
        }
        found
    }

    /// How many bytes of unmapped cache the kernel may drop of tenant `id` when `target` is over its limit: what
    /// `measure` says, but no more than what exceeds the protection of `id` and of each tenant between it and `target`.
    /// `None` if the group is gone, or not ours to reclaim.
    pub(super) fn droppable_cache(
        &self,
        target: MemcgId,
        id: MemcgId,
        measure: CacheMeasure,
    ) -> Option<u64> {
        self.may_change(id).ok()?;
        let own = self.tenants.get(&id)?;
        if self.has_others_below(own) {
            return None;
        }
        let path = self.driver.machine.tree().ancestors(id);
        // Nobody is protected from itself.
        let free = path.take_while(|one| *one != target).map(|one| {
            let one = self.tenants.get(&one)?;
            Some(one.wall.charged().ok()?.saturating_sub(one.protected()))
        });
        let free = free.collect::<Option<Vec<u64>>>()?.into_iter().min();
        let cache = measure(&own.wall).ok()?;
        Some(cache.min(free.unwrap_or(u64::MAX)))
    }

    /// Whether below a group of the host's there are some that are not tenants of its own, of which the kernel would take, too: made tenants, walls
    /// of `run`; below the first one everybody.
    pub(super) fn has_others_below(&self, own: &Tenant) -> bool {
        /// Of more groups than these nobody is asked whose each is.
        const MOST: usize = 1024;
        let dir = &own.wall.group().dir;
        let is_wall = |name: &OsString| Wall::is_anybodys(&dir.join(name));
        let has_wall = || match own.wall.below(MOST) {
            Ok(below) => below.count > MOST as u64 || below.names.iter().any(is_wall),
            // What cannot be seen may be another's.
            Err(_) => true,
        };
        let is_first = *dir == self.groups.mount;
        own.of_host && (is_first || self.made_below(own).is_some() || has_wall())
    }

    /// How much of its oldest `bytes` is such cache.
    fn cache_among_oldest(&self, memcg: MemcgId, bytes: u64) -> u64 {
        let tenant = self.tenants.get(&memcg);
        let Some(cache) = tenant.and_then(|one| one.cache.as_ref()) else {
            return 0;
        };
        let books = self.driver.watch.ages().books();
        let homes = self.driver.homes().all();
        let owners = homes.filter(|(_, home)| *home == memcg);
        let mapped = owners.flat_map(|(owner, _)| books.ages(owner));
        let mapped = mapped.map(|(_, last, pages)| (last, pages * 4096, false));
        let cached = cache.iter().flat_map(|node| node.files.all());
        let cached = cached.map(|(since, bytes)| (since, bytes, true));
        let mut all: Vec<(u64, u64, bool)> = mapped.chain(cached).collect();
        all.sort_unstable();
        let (mut left, mut part) = (bytes, 0);
        for (_, bytes, is_cache) in all {
            let taken = bytes.min(left);
            left -= taken;
            part += if is_cache { taken } else { 0 };
        }
        part
    }

    /// Its page cache on each node. Of groups of version 1 the kernel does not tell on which nodes what nobody maps is: it is
    /// told of the first.
    pub(super) fn caches(&self, tenant: &Tenant) -> Result<Vec<Cache>, Errno> {
        let (nodes, version) = (self.nodes(), self.groups.version);
        if let (Version::V2, 2..) = (version, nodes.len())
            && let Ok(text) = tenant.wall.file("memory.numa_stat")
            && let Some(caches) = parse_node_caches(&text, nodes)
        {
            return Ok(caches);
        }
        let text = tenant.wall.file("memory.stat")?;
        let mut caches = vec![Cache::default(); nodes.len()];
        caches[0] = parse_cache(&text, version).unwrap_or_default();
        Ok(caches)
    }
}

/// Has the kernel reclaim from a group step by step, until it is time to give way; how many bytes went. `left` is what is still to go then:
/// nothing, where the kernel finds hardly any more.
pub(super) fn drop_in_steps(
    wall: &Wall,
    left: &mut u64,
    swappiness: impl Into<Option<u8>>,
    pause: &Pause,
) -> u64 {
    let swappiness = swappiness.into();
    let mut got = 0;
    while *left > 0 {
        let step = (*left).min(STEP);
        // Of page cache what was taken counts, though whoever reads has as much again.
        let dropped = match swappiness {
            Some(_) => wall.reclaim_taken(step, swappiness),
            None => wall.reclaim(step, None),
        };
        let dropped = dropped.unwrap_or(0).min(step);
        got += dropped;
        *left = if dropped < step / 4 { 0 } else { *left - step };
        if pause.is_due() {
            break;
        }
    }
    got
}

fn note(ages: &mut [NodeCache], now: u64, caches: &[Cache]) {
    for (ages, cache) in ages.iter_mut().zip(caches) {
        ages.note(now, cache);
    }
}
