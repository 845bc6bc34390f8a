//! The host's own control groups as tenants below `host`.
//!
//! Invariant: they are followed as they are: nothing of theirs is written, and nothing taken from them, unless `manage` was
//! given; then what the host itself protects of them is protected. Groups that managers of ours have are none of the host's, nor
//! are processes that other managers look at: of two that clear accessed bits neither knows an age.

use std::io;
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::tenant::Tenant;
use crate::system::cgroup::walk;
use crate::system::descriptors::is_lack;
use crate::system::{Group, Groups};
use crate::wall::Wall;
use crate::watch::WatchError;

/// Where they are in the tree.
const NAME: &str = "host";

/// Which of the host's groups are tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostGroups {
    /// The first of them, all others are below it; `/` for all.
    pub group: String,
    /// They may be limited and reclaimed from as if they had been made here.
    pub manage: bool,
}

/// The same, found.
#[derive(Debug)]
pub(super) struct Host {
    /// The tenant `host`.
    pub(super) memcg: MemcgId,
    pub(super) group: Group,
    pub(super) manage: bool,
}

impl Host {
    /// The group that is meant. The tree's own root must be below it: one watch sees both.
    pub(super) fn find(
        groups: &Groups,
        root: &Wall,
        asked: &HostGroups,
    ) -> Result<Host, WatchError> {
        let group = groups.resolve(&asked.group)?;
        if !root.group().path.starts_with(&group.path) {
            let (root, host) = (root.group().path.display(), group.path.display());
            let what = format!("the tenants' root {root} is not below {host}, which --host names");
            let hint = format!("give --root {host}/pagetide, or leave --host out for all groups");
            return Err(WatchError::failure(what, hint));
        }
        Ok(Host {
            memcg: MemcgId::ROOT,
            group,
            manage: asked.manage,
        })
    }
}

impl Tenants {
    /// Makes the tenant `host`, where it is asked for.
    pub(super) fn begin_host(&mut self) -> Result<(), WatchError> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let wall = Wall::of_host(&self.groups, &host.group.dir, self.manager);
        let wall = wall.map_err(|errno| {
            let what = format!("cannot read {}: {errno}", host.group.dir.display());
            WatchError::failure(what, "is it still there? leave --host out for all groups")
        })?;
        let now = self.now();
        let memcg = self.driver.machine.create(MemcgId::ROOT, now);
        self.driver.machine.set_grants_all(memcg);
        if let Some(host) = &mut self.host {
            host.memcg = memcg;
        }
        self.admit(memcg, PathBuf::from(NAME), wall, true);
        Ok(())
    }

    /// Whether a tenant may be changed, or anything be taken from it.
    ///
    /// # Errors
    /// EPERM: it is the host's, and `manage` was not given. ENODEV: it is gone.
    pub fn may_change(&self, memcg: MemcgId) -> Result<(), Errno> {
        let is_locked = self.host.as_ref().is_none_or(|host| !host.manage);
        match self.tenant(memcg)?.of_host && is_locked {
            true => Err(Errno::PERM),
            false => Ok(()),
        }
    }

    /// The wall of `host`, where the root's budget is for the host's groups, too. That is so if they may be changed. Otherwise they give
    /// nothing, and do not count: else a budget of 8 GiB on a host that uses 6 would leave 2 to the tenants that it was made for.
    pub(super) fn budget_of_host(&self) -> Option<&Wall> {
        let host = self.host.as_ref().filter(|host| host.manage)?;
        self.tenants.get(&host.memcg).map(|tenant| &tenant.wall)
    }

    /// What a tenant uses, bytes: what the kernel charges to its group with all below it, but for two cases. From a group of the host
    /// below which our root lies, the root's charge is taken off, since made tenants are none of `host`'s. And the root, where its budget
    /// is for the host's groups, too, uses what `host` and the made tenants do together, less page cache that nobody maps: no wall
    /// makes the kernel drop that, and it does so by itself as soon as anybody needs memory.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn used(&self, tenant: &Tenant) -> io::Result<u64> {
        if tenant.memcg == MemcgId::ROOT
            && let Some(host) = self.budget_of_host()
        {
            return Ok(host.charged()?.saturating_sub(host.cache_unmapped()?));
        }
        let charged = tenant.wall.charged()?;
        match self.made_below(tenant) {
            Some(root) => Ok(charged.saturating_sub(root.charged()?)),
            None => Ok(charged),
        }
    }

    /// The root's wall, if the root's group lies below this tenant's, which is the host's: the kernel's figures of the upper group have
    /// those of the root in them, and the tenant's must not.
    pub(super) fn made_below(&self, tenant: &Tenant) -> Option<&Wall> {
        let root = self.tenants.get(&MemcgId::ROOT).map(|root| &root.wall);
        let is_above = |root: &&Wall| root.group().path.starts_with(&tenant.wall.group().path);
        root.filter(|_| tenant.of_host).filter(is_above)
    }

    /// What of a tenant, with all below it, is in swap, bytes: what the kernel counts for its group, or what tables say where that is more.
    pub(super) fn swapped(&self, tenant: &Tenant, by_tables: u64) -> u64 {
        let of = |wall: &Wall| {
            let usage = self.groups.usage(wall.group()).ok().flatten();
            usage.and_then(|usage| usage.swap).unwrap_or(0)
        };
        let host = self.budget_of_host();
        let whole = host.filter(|_| tenant.memcg == MemcgId::ROOT);
        let made = self.made_below(tenant).map_or(0, of);
        let counted = of(whole.unwrap_or(&tenant.wall));
        counted.saturating_sub(made).max(by_tables)
    }

    /// What the host protects of its own groups may have changed: where they give, that counts.
    pub(super) fn follow_protection(&mut self) {
        if self.budget_of_host().is_none() {
            return;
        }
        for tenant in self.tenants.values_mut().filter(|one| one.of_host) {
            if tenant.follow_kernel_protection() {
                let limits = tenant.for_engine(true);
                self.driver.machine.set_limits(tenant.memcg, limits);
            }
        }
    }

    /// Whether a directory below a group of the host is another tenant of the host: not our root, nor a manager's group.
    ///
    /// # Errors
    /// Descriptors or memory are lacking.
    pub(super) fn is_hosts_own(&self, dir: &Path) -> Result<bool, Errno> {
        let root = self.tenants.get(&MemcgId::ROOT);
        if root.is_some_and(|root| root.wall.group().dir == dir) {
            return Ok(false);
        }
        match walk::open(dir) {
            Ok(dir) => Ok(!Wall::is_anybodys_open(&dir)),
            Err(errno) if is_lack(errno) => Err(errno),
            // It is gone.
            Err(_) => Ok(true),
        }
    }
}
