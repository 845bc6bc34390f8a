//! Page cache of tenants that nobody maps: it counts as bytes of files, and leaves by the kernel's hand.
//!
//! Invariant: it is watched where somebody asks for reports, nowhere else. It is taken from tenants with nobody below them: the
//! kernel, which takes it, knows nothing of who is protected there.

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::cache::CacheAges;
use super::tenant::Tenant;
use crate::system::cgroup::{Cache, Version, parse_cache, parse_node_caches};

/// Less than this, bytes, is not asked of the kernel.
const LEAST: u64 = 1 << 20;

impl Tenants {
    /// From now on its unmapped page cache counts in its ages.
    ///
    /// # Errors
    /// ENODEV.
    pub fn watch_cache(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        if self.tenant(memcg)?.cache.is_none() {
            let caches = self.caches(self.tenant(memcg)?)?;
            let now = self.driver.watch.elapsed_ms();
            let mut ages = vec![CacheAges::default(); caches.len()];
            note(&mut ages, now, &caches);
            if let Some(tenant) = self.tenants.get_mut(&memcg) {
                tenant.cache = Some(ages);
            }
        }
        Ok(())
    }

    /// Nobody asks any more.
    pub fn forget_cache(&mut self, memcg: MemcgId) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.cache = None;
        }
    }

    /// A look: how much there is now.
    pub(super) fn note_caches(&mut self) {
        let now = self.driver.watch.elapsed_ms();
        let watched = self.tenants.values().filter(|one| one.cache.is_some());
        let found: Vec<(MemcgId, Vec<Cache>)> = watched
            .filter_map(|one| Some((one.memcg, self.caches(one).ok()?)))
            .collect();
        for (memcg, caches) in found {
            let tenant = self.tenants.get_mut(&memcg);
            if let Some(ages) = tenant.and_then(|one| one.cache.as_mut()) {
                note(ages, now, &caches);
            }
        }
    }

    /// Takes of its unmapped page cache what is older than everything else that would be left of it if so many bytes
    /// went; how many bytes that were.
    pub(super) fn take_cache(&mut self, memcg: MemcgId, bytes: u64) -> u64 {
        let part = self.cache_among_oldest(memcg, bytes);
        if part < LEAST || self.below(memcg).len() > 1 {
            return 0;
        }
        let Ok(tenant) = self.tenant(memcg) else {
            return 0;
        };
        // Of anonymous memory the engine decides. Not 0: on version 1 the limit is lowered for a moment, and a program that met
        // it with no cache left to drop would be killed.
        let got = tenant.wall.reclaim(part, Some(1)).unwrap_or(0).min(part);
        self.note_caches();
        got
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
        let cached = cache.iter().flat_map(CacheAges::all);
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

fn note(ages: &mut [CacheAges], now: u64, caches: &[Cache]) {
    for (ages, cache) in ages.iter_mut().zip(caches) {
        ages.note(now, cache.unmapped_file_least());
    }
}
