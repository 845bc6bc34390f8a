//! Unmapped page cache of tenants: it counts as file bytes, and only the kernel can drop it.
//!
//! Invariants: the cache of a tenant is measured only if a user has requested its reports, or if
//! its policy decides by the cache's age. The kernel drops the cache, not the engine. On version 1
//! the kernel knows no protection, and uses each group's own swappiness. So cache is dropped from
//! tenants without children, and only so much that their protection is kept. From a tenant with
//! children it is dropped last, and only if none of the children is protected.

use std::ffi::OsString;
use std::io;

use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;
use engine::{Bytes, Pages};
use rustix::io::Errno;

use super::super::headroom::CACHE_FIRST_SWAPPINESS;
use super::super::wakeup::Pause;
use super::cache::NodeCache;
use super::tenant::Tenant;
use super::{SLICE, Tenants};
use crate::hard_limit::HardLimit;
use crate::system::cgroup::{Cache, Version, parse_cache, parse_node_caches};

/// Smallest request to the kernel, in bytes.
pub(super) const LEAST: u64 = 1 << 20;
/// Reads how much page cache the kernel may drop from a group, in bytes. For limits that is all
/// unmapped cache; for requests of users only cache that need not be written first.
pub(super) type CacheMeasure = fn(&HardLimit) -> io::Result<u64>;
/// Number of bytes in one request to the kernel: a few milliseconds of work, if nothing must be
/// written.
const STEP: u64 = 8 << 20;

impl Tenants {
    /// From now on, measures a tenant's unmapped page cache and includes it in its ages.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. Otherwise the kernel's error.
    pub fn watch_cache(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        self.set_reported(memcg, true);
        self.update_cache_watch(memcg)
    }

    /// Ends [`Tenants::watch_cache`]: no user requests reports any more.
    pub fn forget_cache(&mut self, memcg: MemcgId) {
        self.set_reported(memcg, false);
        // When measuring stops, nothing is read, so this cannot fail.
        let _ = self.update_cache_watch(memcg);
    }

    /// Records whether a user has requested reports of a tenant.
    fn set_reported(&mut self, memcg: MemcgId, is_reported: bool) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.is_reported = is_reported;
        }
    }

    /// Starts or stops measuring a tenant's cache, as its reports and its policy need.
    pub(super) fn update_cache_watch(&mut self, memcg: MemcgId) -> Result<(), Errno> {
        let tenant = self.tenant(memcg)?;
        let is_requested = tenant.is_reported || tenant.asks_for_cache();
        if is_requested == tenant.cache.is_some() {
            return Ok(());
        }
        let mut ages = None;
        if is_requested {
            let caches = self.caches(tenant)?;
            let nodes = ages.insert(vec![NodeCache::default(); caches.len()]);
            note(nodes, self.now().millis().0, &caches);
        }
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.cache = ages;
        }
        Ok(())
    }

    /// Measures the page cache of all tenants after a scan, where it is needed.
    pub(super) fn note_caches(&mut self) {
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in &all {
            // If the first measurement failed, this tries again; if nothing has changed, it reads
            // nothing.
            let _ = self.update_cache_watch(*memcg);
        }
        self.note_caches_of(&all);
    }

    /// Measures the page cache of those tenants in `of` whose cache must be known.
    fn note_caches_of(&mut self, of: &[MemcgId]) {
        let now = self.now().millis().0;
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

    /// Returns how many of a tenant's oldest `bytes` bytes are unmapped page cache that need not be
    /// written; 0 if that is too little for a request.
    pub(super) fn cache_to_take(&self, memcg: MemcgId, bytes: u64) -> u64 {
        let own = self.tenants.get(&memcg);
        let own = own.filter(|one| !self.has_others_below(one));
        let clean = own
            .and_then(|one| one.hard_limit.cache_clean().ok())
            .unwrap_or(0);
        let part = self.cache_among_oldest(memcg, bytes).min(clean);
        match part < LEAST || self.below(memcg).len() > 1 {
            true => 0,
            false => part,
        }
    }

    /// Requests that the kernel drop `left` bytes of a tenant's cache, until `pause` ends the
    /// slice. Returns the bytes dropped, and sets `left` to the rest.
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
        let got = drop_in_steps(&tenant.hard_limit, left, swappiness, pause);
        self.note_caches_of(&[memcg]);
        got
    }

    /// Requests that the kernel drop page cache for a limit that is not written yet: from a tenant
    /// and those below it, the largest caches first, at most `most` pages, for one slice. Returns
    /// the number of pages dropped.
    pub(super) fn drop_cache(&self, memcg: MemcgId, most: Pages) -> Pages {
        let pause = Pause::after(&self.wakeup, SLICE);
        let (most, mut got) = (most.bytes().0, 0);
        for (spare, id) in self.droppable_tenants(memcg, HardLimit::cache_unmapped) {
            if let Ok(tenant) = self.tenant(id) {
                let mut left = spare.min(most - got);
                got += drop_in_steps(
                    &tenant.hard_limit,
                    &mut left,
                    CACHE_FIRST_SWAPPINESS,
                    &pause,
                );
            }
            if got >= most || pause.is_due() {
                break;
            }
        }
        Bytes(got).pages()
    }

    /// Returns the tenants from which the kernel may drop cache for a limit of `target`: bytes,
    /// then tenant; most bytes first.
    pub(super) fn droppable_tenants(
        &self,
        target: MemcgId,
        measure: CacheMeasure,
    ) -> Vec<(u64, MemcgId)> {
        let (all, tree) = (self.below(target), self.driver.machine.tree());
        let leaves = all.iter().filter(|id| tree.children(**id).next().is_none());
        let spare =
            leaves.filter_map(|id| Some((self.droppable_cache(target, *id, measure)?, *id)));
        let mut found: Vec<(u64, MemcgId)> = spare.filter(|(spare, _)| *spare >= LEAST).collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        let of_host = self.tenants.get(&target).is_some_and(|one| one.of_host);
        // In the kernel's hierarchy, tenants made by pagetide and the host's groups are never below
        // each other here; otherwise `has_others_below` is true.
        let is_protected_one = |id: &MemcgId| {
            let one = self.tenants.get(id).filter(|one| one.of_host == of_host);
            one.is_some_and(|one| one.is_protected() || self.has_others_below(one))
        };
        // The target itself comes last, with its own cache and the cache of removed children. There
        // the kernel takes from the whole subtree, so it is allowed only if no tenant below is
        // protected.
        if all.len() > 1 && !all.iter().skip(1).any(is_protected_one) {
            found.extend(
                self.droppable_cache(target, target, measure)
                    .map(|spare| (spare, target)),
            );
        }
        found
    }

    /// Returns how many bytes of cache the kernel may drop from tenant `id` for a limit of
    /// `target`: the minimum of what `measure` reads, and of the memory above the protection of
    /// `id` and of each tenant between `id` and `target`. `None` if the group is gone, or if we may
    /// not reclaim from it.
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
        // The target's own protection does not count against its own limit.
        let free = path.take_while(|one| *one != target).map(|one| {
            let one = self.tenants.get(&one)?;
            Some(
                one.hard_limit
                    .charged()
                    .ok()?
                    .saturating_sub(one.protected()),
            )
        });
        let free = free.collect::<Option<Vec<u64>>>()?.into_iter().min();
        let cache = measure(&own.hard_limit).ok()?;
        Some(cache.min(free.unwrap_or(u64::MAX)))
    }

    /// Whether a group of the host has groups below it that are not tenants of the host, and from
    /// which the kernel would take, too: made tenants, or hard-limit cgroups of `run`. The topmost
    /// group contains all others.
    pub(super) fn has_others_below(&self, own: &Tenant) -> bool {
        /// If there are more child groups than this, their owners are not checked.
        const MOST: usize = 1024;
        let dir = &own.hard_limit.group().dir;
        let is_hard_limit = |name: &OsString| HardLimit::has_any_manager(&dir.join(name));
        let has_hard_limit = || match own.hard_limit.below(MOST) {
            Ok(below) => below.count > MOST as u64 || below.names.iter().any(is_hard_limit),
            // A group that cannot be read may belong to another manager.
            Err(_) => true,
        };
        let is_first = *dir == self.groups.mount;
        own.of_host && (is_first || self.root_below(own).is_some() || has_hard_limit())
    }

    /// Returns how many of a tenant's oldest `bytes` bytes are unmapped page cache of files.
    fn cache_among_oldest(&self, memcg: MemcgId, bytes: u64) -> u64 {
        let tenant = self.tenants.get(&memcg);
        let Some(cache) = tenant.and_then(|one| one.cache.as_ref()) else {
            return 0;
        };
        let age_table = self.driver.watch.ages().age_table();
        let tenant_map = self.driver.tenant_map().all();
        let owners = tenant_map.filter(|(_, home)| *home == memcg);
        let mapped = owners.flat_map(|(owner, _)| age_table.ages(owner));
        let mapped = mapped.map(|(_, last, pages)| (last, pages * PAGE_SIZE, false));
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

    /// Returns a tenant's page cache on each NUMA node. On version 1 the kernel does not report a
    /// group's cache by node, so all of it is counted on the first node.
    pub(super) fn caches(&self, tenant: &Tenant) -> Result<Vec<Cache>, Errno> {
        let (nodes, version) = (self.nodes(), self.groups.version);
        if let (Version::V2, 2..) = (version, nodes.len())
            && let Ok(text) = tenant.hard_limit.file("memory.numa_stat")
            && let Some(caches) = parse_node_caches(&text, nodes)
        {
            return Ok(caches);
        }
        let text = tenant.hard_limit.file("memory.stat")?;
        let mut caches = vec![Cache::default(); nodes.len()];
        caches[0] = parse_cache(&text, version).unwrap_or_default();
        Ok(caches)
    }
}

/// Requests that the kernel reclaim `left` bytes from a group, [`STEP`] bytes at a time, until
/// `pause` ends the slice. Returns the bytes reclaimed. Sets `left` to the remaining bytes, 0 if
/// the kernel finds hardly any more.
pub(super) fn drop_in_steps(
    hard_limit: &HardLimit,
    left: &mut u64,
    swappiness: impl Into<Option<u8>>,
    pause: &Pause,
) -> u64 {
    let swappiness = swappiness.into();
    let mut got = 0;
    while *left > 0 {
        let step = (*left).min(STEP);
        // For page cache, the kernel's own count is used: a process that reads files is charged for
        // as much again at once, so the charge would not fall.
        let dropped = match swappiness {
            Some(_) => hard_limit.reclaim_taken(step, swappiness),
            None => hard_limit.reclaim(step, None),
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

/// Records the sizes of the cache on all nodes.
fn note(ages: &mut [NodeCache], now: u64, caches: &[Cache]) {
    for (ages, cache) in ages.iter_mut().zip(caches) {
        ages.note(now, cache);
    }
}
