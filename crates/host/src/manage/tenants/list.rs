//! Lists which groups exist, and which processes are in each.
//!
//! Invariant: a scan reads each tenant's group once, through a descriptor of that group, never from
//! a later group with the same path. A process in a group that is not a tenant belongs to the
//! nearest tenant above the group. If not all groups could be visited, `/proc` shows the groups of
//! the other processes ([`super::membership`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::group_share::{self, choose};
use super::left_out::MANAGED;
use super::membership::Listing;
use crate::hard_limit::{Below, HardLimit};
use crate::system::descriptors::is_lack;

/// Maximum number of groups that one scan visits and that are not tenants themselves.
const OTHERS_MAX: usize = 4096;

/// A group of the host that is not a tenant yet.
struct NewGroup {
    parent: MemcgId,
    /// Path as a tenant, below the tree's root.
    path: PathBuf,
    /// The group's directory.
    dir: PathBuf,
}

impl Tenants {
    /// Adds tenants for groups that other programs made, drops tenants whose groups they removed,
    /// and lists the processes of each tenant.
    ///
    /// # Errors
    /// Descriptors or memory are lacking. Then nothing has changed, except that tenants without a
    /// group were dropped.
    pub(super) fn list(&mut self) -> Result<Listing, Errno> {
        let mut listing = Listing::new(OTHERS_MAX);
        listing.strangers.extend((self.others)());
        let mut gone = Vec::new();
        for memcg in self.by_path.values().copied() {
            if !self.list_own(memcg, &mut listing)? && memcg != MemcgId::ROOT {
                gone.push(memcg);
            }
        }
        // Children come before parents: the engine releases no tenant that has children.
        for memcg in gone.into_iter().rev() {
            self.leave(memcg);
        }
        let mut above = vec![MemcgId::ROOT];
        while let Some(parent) = above.pop() {
            above.extend(self.list_below(parent, &mut listing)?);
        }
        self.follow_host(&mut listing)?;
        if listing.has_left_out {
            self.list_by_process(&mut listing)?;
        }
        self.say_left_out();
        if let Some(root) = self.tenants.get(&MemcgId::ROOT) {
            let root = &root.hard_limit.group().dir;
            self.unclaimed.retain(|path| root.join(path).is_dir());
        }
        self.say_managed(&mut listing);
        Ok(listing)
    }

    /// Drops a tenant after its group was removed, or was taken by another manager.
    fn leave(&mut self, memcg: MemcgId) {
        self.note_gone(memcg);
        self.free_above(memcg);
        self.drop_tenant(memcg);
    }

    /// Logs which processes and groups other managers have now and did not have at the last
    /// listing.
    fn say_managed(&mut self, listing: &mut Listing) {
        let mut left_out = std::mem::take(&mut listing.managed);
        let listed = listing.strangers.iter();
        for pid in listed.filter(|pid| listing.tenant_map.contains_key(pid)) {
            left_out.add(format!("pid {pid}"), MANAGED);
        }
        for line in self.left_out.replace(left_out) {
            self.act(line);
        }
    }

    /// Lists the processes of a tenant's own group. Returns whether the group exists.
    fn list_own(&self, memcg: MemcgId, listing: &mut Listing) -> Result<bool, Errno> {
        let Some(tenant) = self.tenants.get(&memcg) else {
            return Ok(false);
        };
        match tenant.hard_limit.own_pids() {
            Ok(Some(pids)) => {
                let all = pids.into_iter().map(|pid| (pid, memcg));
                listing.tenant_map.extend(all);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(errno) if is_lack(errno) => Err(errno),
            // The group is threaded: its processes are listed in the group above it.
            Err(_) => Ok(true),
        }
    }

    /// Returns the names of up to `most` child groups of a tenant's group; none if they cannot be
    /// read.
    fn names_below(&self, parent: MemcgId, most: usize) -> Result<Below, Errno> {
        let Some(tenant) = self.tenants.get(&parent) else {
            return Ok(Below::default());
        };
        match tenant.hard_limit.below(most) {
            Err(errno) if is_lack(errno) => Err(errno),
            below => Ok(below.unwrap_or_default()),
        }
    }

    /// Adds tenants for new child groups of a made tenant. Returns all its children that are
    /// tenants.
    fn list_below(
        &mut self,
        parent: MemcgId,
        listing: &mut Listing,
    ) -> Result<Vec<MemcgId>, Errno> {
        let (below, mut found) = (self.names_below(parent, usize::MAX)?, Vec::new());
        let Some(tenant) = self.tenants.get(&parent) else {
            return Ok(found);
        };
        let (above, dir) = (tenant.path.clone(), tenant.hard_limit.group().dir.clone());
        let mut left_out = 0;
        for name in below.names {
            let path = above.join(&name);
            if let Some(known) = self.by_path.get(&path) {
                found.push(*known);
                continue;
            }
            if !listing.may_visit() {
                left_out += 1;
                continue;
            }
            let dir = dir.join(&name);
            match self.take_up(parent, path, &dir)? {
                Some(new) => {
                    self.list_own(new, listing)?;
                    found.push(new);
                }
                None => left_out += self.list_others(parent, &dir, listing)?,
            }
        }
        self.note_left_out(parent, left_out);
        Ok(found)
    }

    /// Updates which of the host's own groups are tenants, one level of the hierarchy after
    /// another. Each group gets its share of the places ([`group_share`]).
    fn follow_host(&mut self, listing: &mut Listing) -> Result<(), Errno> {
        let mut level: Vec<MemcgId> = self.host.iter().map(|host| host.memcg).collect();
        for depth in 0.. {
            let (mut known, mut new) = (Vec::new(), Vec::new());
            let free = group_share::MOST.saturating_sub(self.host_tenants());
            for parent in level {
                self.find_below(parent, (depth, free), (&mut known, &mut new))?;
            }
            if known.is_empty() && new.is_empty() {
                break;
            }
            known.extend(self.admit_shares(new, listing)?);
            known.retain(|memcg| self.tenants.contains_key(memcg));
            level = known;
        }
        let left_out = self.tenants.values().any(|tenant| tenant.left_out > 0);
        listing.has_left_out |= left_out;
        Ok(())
    }

    /// Adds the child groups of one of the host's groups: tenants to `known`, groups that may
    /// become tenants to `new`.
    fn find_below(
        &mut self,
        parent: MemcgId,
        (depth, free): (usize, usize),
        (known, new): (&mut Vec<MemcgId>, &mut Vec<NewGroup>),
    ) -> Result<(), Errno> {
        let Below { names, count } = self.names_below(parent, group_share::MOST)?;
        let Some(tenant) = self.tenants.get(&parent) else {
            return Ok(());
        };
        let (above, dir) = (&tenant.path, &tenant.hard_limit.group().dir);
        let root = self.tenants.get(&MemcgId::ROOT);
        let is_root = |dir: &Path| root.is_some_and(|root| root.hard_limit.group().dir == dir);
        let mut asking = free + group_share::ASKING_MAX;
        // Known tenants are taken from the engine's tree, because the kernel lists groups in its
        // own order, and a very long list is not read to its end.
        let before = known.len();
        known.extend(self.driver.machine.tree().children(parent));
        let mut left_out = count.saturating_sub((known.len() - before) as u64);
        for name in names {
            let (path, dir) = (above.join(&name), dir.join(&name));
            let is_too_far =
                depth >= group_share::LEVELS_MAX || path.as_os_str().len() > group_share::PATH_MAX;
            if is_root(&dir) {
                left_out = left_out.saturating_sub(1);
            } else if !self.by_path.contains_key(&path) && !is_too_far && asking > 0 {
                asking -= 1;
                new.push(NewGroup { parent, path, dir });
            }
        }
        self.note_left_out(parent, left_out);
        Ok(())
    }

    /// Makes tenants of those new groups that get a place, and drops tenants that have lost theirs.
    /// Returns the new tenants.
    fn admit_shares(
        &mut self,
        new: Vec<NewGroup>,
        listing: &mut Listing,
    ) -> Result<Vec<MemcgId>, Errno> {
        let Some(host) = self.host.as_ref().filter(|_| !new.is_empty()) else {
            return Ok(Vec::new());
        };
        let tenants = self.below(host.memcg);
        let places: BTreeMap<MemcgId, usize> = tenants.iter().copied().zip(0..).collect();
        let place = |parent: MemcgId| places.get(&parent).copied();
        let tree = self.driver.machine.tree();
        let parents = tenants.iter().map(|memcg| place(tree.parent(*memcg)?));
        let parents = parents.chain(new.iter().map(|new| place(new.parent)));
        let chosen = choose(&parents.collect::<Vec<_>>(), group_share::MOST);
        for (memcg, is_chosen) in tenants.iter().zip(&chosen).rev() {
            let above = self.driver.machine.tree().parent(*memcg);
            if let Some(above) = above.filter(|_| !is_chosen) {
                listing.hand_over(*memcg, above);
                self.leave(*memcg);
                self.add_left_out(above, 1);
            }
        }
        let mut admitted = Vec::new();
        for (new, is_chosen) in new.into_iter().zip(&chosen[tenants.len()..]) {
            if !is_chosen {
                continue;
            }
            let is_ours = self.is_hosts_own(&new.dir)?;
            let memcg = match is_ours {
                true => self.take_up(new.parent, new.path, &new.dir)?,
                false => None,
            };
            // A group that is gone, or that another manager has, does not count as left out.
            self.add_left_out(new.parent, -1);
            match memcg {
                Some(memcg) => {
                    self.list_own(memcg, listing)?;
                    admitted.push(memcg);
                }
                None => {
                    self.list_others(new.parent, &new.dir, listing)?;
                }
            }
        }
        Ok(admitted)
    }

    /// Lists the processes of a group that is not a tenant, and of all groups below it, as
    /// processes of the tenant `above`. Returns how many of these groups were not visited, as far
    /// as known.
    fn list_others(&self, above: MemcgId, dir: &Path, listing: &mut Listing) -> Result<u64, Errno> {
        let root = self.tenants.get(&MemcgId::ROOT);
        // The tree's own root is somewhere among the host's groups.
        if root.is_none_or(|root| root.hard_limit.group().dir == dir) {
            return Ok(0);
        }
        // If two managers clear accessed bits of the same process, neither knows its ages.
        let is_managers = |dir: &_| self.host.is_some() && HardLimit::has_any_manager_open(dir);
        listing.list_others(above, (&self.groups.mount, dir), &is_managers)
    }

    /// Makes a tenant of an existing group. Returns `None` if the group must not be managed.
    fn take_up(
        &mut self,
        parent: MemcgId,
        path: PathBuf,
        dir: &Path,
    ) -> Result<Option<MemcgId>, Errno> {
        let Some(above) = self.tenants.get(&parent) else {
            return Ok(None);
        };
        let of_host = above.of_host;
        // A hard-limit cgroup belongs to its `run`, even after the manager of `run` has died.
        if !of_host && path.file_name().is_some_and(HardLimit::is_of_run) {
            return Ok(None);
        }
        let hard_limit = match of_host {
            true => HardLimit::of_host(&self.groups, dir, self.manager),
            false => HardLimit::take_up(&self.groups, dir, self.manager),
        };
        let hard_limit = match hard_limit {
            Ok(hard_limit) => hard_limit,
            // The group has our ownership xattr, but another manager holds its lock, so the group's
            // settings are not enforced.
            Err(errno)
                if !of_host && HardLimit::is_marked(dir) && self.unclaimed.insert(path.clone()) =>
            {
                self.act(format!(
                    "/{} is not managed: another manager has it, or pagetide cannot claim it ({errno})",
                    path.display()
                ));
                return Ok(None);
            }
            Err(errno) if of_host && is_lack(errno) => return Err(errno),
            Err(_) => return Ok(None),
        };
        self.unclaimed.remove(&path);
        let now = self.now().millis();
        let memcg = self.driver.machine.create(parent, now);
        self.admit(memcg, path, hard_limit, of_host);
        Ok(Some(memcg))
    }

    /// Returns the number of the host's groups that are tenants.
    fn host_tenants(&self) -> usize {
        self.tenants
            .values()
            .filter(|tenant| tenant.of_host)
            .count()
    }

    /// Records that a tenant is gone, for callers that keep names of tenants ([`Tenants::gone`]).
    pub(super) fn note_gone(&mut self, memcg: MemcgId) {
        let Some(tenant) = self.tenants.get(&memcg) else {
            return;
        };
        let above = tenant.path.parent().and_then(|above| self.find(above));
        let above = above.and_then(|above| self.serial(above));
        if let (Some(above), Some(name)) = (above, tenant.path.file_name()) {
            let name = name.to_owned();
            self.gone.push((above, name));
        }
    }
}
