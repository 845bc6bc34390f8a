//! Which groups there are, and who is in each.
//!
//! Invariant: each group is asked once a look, by its open directory: what it tells is of that group, and not of a later one
//! with its name. A process in a group that is no tenant's is of the tenant above.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;

use super::Tenants;
use crate::wall::Wall;

/// Who is where.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Whose tenant each process is, by pid.
    pub(super) homes: BTreeMap<u32, MemcgId>,
    /// Processes that other managers have: with all their descendants they are not ours to look at.
    pub(super) strangers: BTreeSet<u32>,
}

impl Tenants {
    /// Follows groups that came and went by another's hand, and lists who is in each.
    pub(super) fn list(&mut self) -> Listing {
        let mut listing = Listing::default();
        listing.strangers.extend((self.others)());
        let mut gone = Vec::new();
        for memcg in self.by_path.values().copied() {
            if !self.list_own(memcg, &mut listing) && memcg != MemcgId::ROOT {
                gone.push(memcg);
            }
        }
        // From the leaves up: the engine releases nobody who has children.
        for memcg in gone.into_iter().rev() {
            self.note_gone(memcg);
            self.free_above(memcg);
            self.drop_tenant(memcg);
        }
        let mut above = vec![MemcgId::ROOT];
        above.extend(self.host.as_ref().map(|host| host.memcg));
        while let Some(parent) = above.pop() {
            above.extend(self.list_below(parent, &mut listing));
        }
        if let Some(root) = self.tenants.get(&MemcgId::ROOT) {
            let root = &root.wall.group().dir;
            self.unheld.retain(|path| root.join(path).is_dir());
        }
        listing
    }

    /// The processes of a tenant's own group; whether that is there.
    fn list_own(&self, memcg: MemcgId, listing: &mut Listing) -> bool {
        let Some(tenant) = self.tenants.get(&memcg) else {
            return false;
        };
        match tenant.wall.own_pids() {
            Ok(Some(pids)) => {
                let all = pids.into_iter().map(|pid| (pid, memcg));
                listing.homes.extend(all);
                true
            }
            Ok(None) => false,
            // A group of threads, whose processes are listed above it.
            Err(_) => true,
        }
    }

    /// Takes up who is new right below a tenant; all tenants that are there.
    fn list_below(&mut self, parent: MemcgId, listing: &mut Listing) -> Vec<MemcgId> {
        let mut found = Vec::new();
        let Some(tenant) = self.tenants.get(&parent) else {
            return found;
        };
        let (path, of_host, below) = (tenant.path.clone(), tenant.of_host, tenant.wall.below());
        for dir in below {
            let path = path.join(dir.file_name().unwrap_or_default());
            if let Some(known) = self.by_path.get(&path) {
                found.push(*known);
                continue;
            }
            let is_ours = !of_host || self.is_hosts_own(&dir);
            match is_ours.then(|| self.take_up(parent, path, &dir)).flatten() {
                Some(new) => {
                    self.list_own(new, listing);
                    found.push(new);
                }
                None => self.list_others(parent, &dir, listing),
            }
        }
        found
    }

    /// A group that is no tenant, and all below it.
    fn list_others(&self, above: MemcgId, dir: &Path, listing: &mut Listing) {
        let root = self.tenants.get(&MemcgId::ROOT);
        // The tree's own root is somewhere among the host's groups.
        if root.is_none_or(|root| root.wall.group().dir == dir) {
            return;
        }
        // Of two that look at one process neither knows an age.
        if self.host.is_some() && Wall::is_anybodys(dir) {
            listing.strangers.extend(Wall::pids_of(&self.groups, dir));
            return;
        }
        let pids = Wall::own_pids_of(&self.groups, dir).into_iter();
        listing.homes.extend(pids.map(|pid| (pid, above)));
        for below in Wall::folders(dir) {
            self.list_others(above, &below, listing);
        }
    }

    /// The tenant of a group that is there.
    fn take_up(&mut self, parent: MemcgId, path: PathBuf, dir: &Path) -> Option<MemcgId> {
        let of_host = self.tenants.get(&parent)?.of_host;
        // (The story: each `run` in a tenant was a line in the journal, and a wall whose manager had died was ours for ever.)
        if !of_host && path.file_name().is_some_and(Wall::is_of_run) {
            return None;
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
                return None;
            }
            Err(_) => return None,
        };
        self.unheld.remove(&path);
        let now = self.now();
        let memcg = self.driver.machine.create(parent, now);
        self.admit(memcg, path, wall, of_host);
        Some(memcg)
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
