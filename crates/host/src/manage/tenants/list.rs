//! Which groups there are, and which processes are in each.
//!
//! Invariant: each tenant's group is asked once a scan, and what it tells is of that group, and not
//! of a later one with its name. A process in a group that is no tenant's is of the tenant above.
//! Where not all groups could be visited, processes tell where they are ([`super::membership`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::group_share::{self, choose};
use super::left_out::MANAGED;
use super::membership::Listing;
use crate::system::descriptors::is_lack;
use crate::wall::{Below, Wall};

/// Groups below tenants that are no tenants which one scan visits.
const OTHERS_MAX: usize = 4096;

/// A group of the host that is no tenant yet.
struct New {
    parent: MemcgId,
    path: PathBuf,
    dir: PathBuf,
}

impl Tenants {
    /// Follows groups that came and went by another's hand, and lists which processes are in each.
    ///
    /// # Errors
    /// Descriptors or memory are lacking: then nothing has changed but groups that are gone.
    pub(super) fn list(&mut self) -> Result<Listing, Errno> {
        let mut listing = Listing::new(OTHERS_MAX);
        listing.strangers.extend((self.others)());
        let mut gone = Vec::new();
        for memcg in self.by_path.values().copied() {
            if !self.list_own(memcg, &mut listing)? && memcg != MemcgId::ROOT {
                gone.push(memcg);
            }
        }
        // From the leaves up: the engine releases nobody who has children.
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
            let root = &root.wall.group().dir;
            self.unheld.retain(|path| root.join(path).is_dir());
        }
        self.say_managed(&mut listing);
        Ok(listing)
    }

    /// A tenant's group is gone, or is no tenant any more.
    fn leave(&mut self, memcg: MemcgId) {
        self.note_gone(memcg);
        self.free_above(memcg);
        self.drop_tenant(memcg);
    }

    /// Logs what other managers have now and had not at the last listing.
    fn say_managed(&mut self, listing: &mut Listing) {
        let mut left_out = std::mem::take(&mut listing.managed);
        let listed = listing.strangers.iter();
        for pid in listed.filter(|pid| listing.homes.contains_key(pid)) {
            left_out.add(format!("pid {pid}"), MANAGED);
        }
        for line in self.left_out.replace(left_out) {
            self.act(line);
        }
    }

    /// The processes of a tenant's own group; whether that is there.
    fn list_own(&self, memcg: MemcgId, listing: &mut Listing) -> Result<bool, Errno> {
        let Some(tenant) = self.tenants.get(&memcg) else {
            return Ok(false);
        };
        match tenant.wall.own_pids() {
            Ok(Some(pids)) => {
                let all = pids.into_iter().map(|pid| (pid, memcg));
                listing.homes.extend(all);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(errno) if is_lack(errno) => Err(errno),
            // A group of threads, whose processes are listed above it.
            Err(_) => Ok(true),
        }
    }

    /// Groups right below a tenant's; none where they cannot be read.
    fn names_below(&self, parent: MemcgId, most: usize) -> Result<Below, Errno> {
        let Some(tenant) = self.tenants.get(&parent) else {
            return Ok(Below::default());
        };
        match tenant.wall.below(most) {
            Err(errno) if is_lack(errno) => Err(errno),
            below => Ok(below.unwrap_or_default()),
        }
    }

    /// Takes up which tenants are new right below a made one; all tenants that are there.
    fn list_below(
        &mut self,
        parent: MemcgId,
        listing: &mut Listing,
    ) -> Result<Vec<MemcgId>, Errno> {
        let (below, mut found) = (self.names_below(parent, usize::MAX)?, Vec::new());
        let Some(tenant) = self.tenants.get(&parent) else {
            return Ok(found);
        };
        let (above, dir) = (tenant.path.clone(), tenant.wall.group().dir.clone());
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

    /// Follows the host's own groups, level by level, as far as each has a share ([`group_share`]).
    fn follow_host(&mut self, listing: &mut Listing) -> Result<(), Errno> {
        let mut level: Vec<MemcgId> = self.host.iter().map(|host| host.memcg).collect();
        for depth in 0.. {
            let (mut known, mut new) = (Vec::new(), Vec::new());
            let free = group_share::MOST.saturating_sub(self.host_tenants());
            for parent in level {
                self.look_below(parent, (depth, free), (&mut known, &mut new))?;
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

    /// Adds the groups right below one of the host's: those that are tenants, and those that may
    /// become one.
    fn look_below(
        &mut self,
        parent: MemcgId,
        (depth, free): (usize, usize),
        (known, new): (&mut Vec<MemcgId>, &mut Vec<New>),
    ) -> Result<(), Errno> {
        let Below { names, count } = self.names_below(parent, group_share::MOST)?;
        let Some(tenant) = self.tenants.get(&parent) else {
            return Ok(());
        };
        let (above, dir) = (&tenant.path, &tenant.wall.group().dir);
        let root = self.tenants.get(&MemcgId::ROOT);
        let is_root = |dir: &Path| root.is_some_and(|root| root.wall.group().dir == dir);
        let mut asking = free + group_share::ASKING_MAX;
        // (Of very many the kernel's list has its own order, and is not read to its end: so it is
        // not asked for these.)
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
                new.push(New { parent, path, dir });
            }
        }
        self.note_left_out(parent, left_out);
        Ok(())
    }

    /// Takes up those of the new groups that have a share, and drops tenants that have none any
    /// more; the tenants that are new.
    fn admit_shares(
        &mut self,
        new: Vec<New>,
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
            // One that is gone, or another manager's, is not left out.
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

    /// Lists the processes of a group that is no tenant, and of all below it, as the tenant's
    /// `above`. How many groups it leaves out, as far as it knows of them.
    fn list_others(&self, above: MemcgId, dir: &Path, listing: &mut Listing) -> Result<u64, Errno> {
        let root = self.tenants.get(&MemcgId::ROOT);
        // The tree's own root is somewhere among the host's groups.
        if root.is_none_or(|root| root.wall.group().dir == dir) {
            return Ok(0);
        }
        // Of two that clear accessed bits of one process neither knows an age.
        let is_managers = |dir: &_| self.host.is_some() && Wall::is_anybodys_open(dir);
        listing.list_others(above, (&self.groups.mount, dir), &is_managers)
    }

    /// The tenant of a group that is there.
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
        // (The story: each `run` in a tenant was a line in the journal, and a wall whose manager had died was ours for ever.)
        if !of_host && path.file_name().is_some_and(Wall::is_of_run) {
            return Ok(None);
        }
        let wall = match of_host {
            true => Wall::of_host(&self.groups, dir, self.manager),
            false => Wall::take_up(&self.groups, dir, self.manager),
        };
        let wall = match wall {
            Ok(wall) => wall,
            // Ours, and somebody else holds its lock: nothing that was asked for it holds.
            Err(errno) if !of_host && Wall::is_marked(dir) && self.unheld.insert(path.clone()) => {
                self.act(format!(
                    "/{} is not managed: another manager has it, or it cannot be had ({errno})",
                    path.display()
                ));
                return Ok(None);
            }
            Err(errno) if of_host && is_lack(errno) => return Err(errno),
            Err(_) => return Ok(None),
        };
        self.unheld.remove(&path);
        let now = self.now();
        let memcg = self.driver.machine.create(parent, now);
        self.admit(memcg, path, wall, of_host);
        Ok(Some(memcg))
    }

    /// How many of the host's groups are tenants.
    fn host_tenants(&self) -> usize {
        self.tenants
            .values()
            .filter(|tenant| tenant.of_host)
            .count()
    }

    /// Whoever keeps names of tenants is to hear that one is not there any more.
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
