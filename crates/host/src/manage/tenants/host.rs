//! The host's own control groups as tenants below the tenant `host`.
//!
//! Invariant: pagetide writes nothing to these groups and reclaims nothing from them, unless
//! `manage` is set; then memory that the host itself protects stays protected. Groups and processes
//! of other managers are not included: if two managers clear accessed bits of the same process,
//! neither knows its ages.

use std::io;
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::tenant::Tenant;
use crate::hard_limit::HardLimit;
use crate::system::cgroup::walk;
use crate::system::descriptors::is_lack;
use crate::system::{Group, Groups};
use crate::watch::WatchError;

/// Path of the tenant for the topmost of the host's groups.
const NAME: &str = "host";

/// Which of the host's groups are tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostGroups {
    /// The topmost of these groups, which contains all others; `/` for all groups of the host.
    pub group: String,
    /// Whether these groups may be limited and reclaimed from, like tenants made by pagetide.
    pub manage: bool,
}

/// The topmost group of [`HostGroups`], found on this host.
#[derive(Debug)]
pub(super) struct Host {
    /// The tenant `host`.
    pub(super) memcg: MemcgId,
    pub(super) group: Group,
    /// Whether the host's groups may be limited and reclaimed from.
    pub(super) manage: bool,
}

impl Host {
    /// Finds the group that the settings name. The tree's own root must be below it, because one
    /// watch covers both groups.
    pub(super) fn find(
        groups: &Groups,
        root: &HardLimit,
        requested: &HostGroups,
    ) -> Result<Host, WatchError> {
        let group = groups.resolve(&requested.group)?;
        if !root.group().path.starts_with(&group.path) {
            let (root, host) = (root.group().path.display(), group.path.display());
            let what = format!("the tenants' root {root} is not below {host}, which --host names");
            let hint = format!("give --root {host}/pagetide, or leave --host out for all groups");
            return Err(WatchError::failure(what, hint));
        }
        Ok(Host {
            memcg: MemcgId::ROOT,
            group,
            manage: requested.manage,
        })
    }
}

impl Tenants {
    /// Makes the tenant `host`, if the settings request it.
    pub(super) fn begin_host(&mut self) -> Result<(), WatchError> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let hard_limit = HardLimit::of_host(&self.groups, &host.group.dir, self.manager);
        let hard_limit = hard_limit.map_err(|errno| {
            let what = format!("cannot read {}: {errno}", host.group.dir.display());
            WatchError::failure(what, "is it still there? leave --host out for all groups")
        })?;
        let now = self.now().millis();
        let memcg = self.driver.machine.create(MemcgId::ROOT, now);
        self.driver.machine.set_hierarchy_root(memcg);
        if let Some(host) = &mut self.host {
            host.memcg = memcg;
        }
        self.admit(memcg, PathBuf::from(NAME), hard_limit, true);
        Ok(())
    }

    /// Checks that a tenant may be changed and reclaimed from.
    ///
    /// # Errors
    /// EPERM: the group is the host's, and `manage` is not set. ENODEV: the tenant is gone.
    pub fn may_change(&self, memcg: MemcgId) -> Result<(), Errno> {
        let is_locked = self.host.as_ref().is_none_or(|host| !host.manage);
        match self.tenant(memcg)?.of_host && is_locked {
            true => Err(Errno::PERM),
            false => Ok(()),
        }
    }

    /// Returns the group of `host` if the root's budget includes the host's groups, which is so if
    /// they may be changed. Otherwise returns `None`: usage that cannot be reclaimed must not
    /// count. A budget of 8 GiB, on a host that uses 6 GiB, would leave only 2 GiB for the tenants.
    pub(super) fn budget_of_host(&self) -> Option<&HardLimit> {
        let host = self.host.as_ref().filter(|host| host.manage)?;
        self.tenants
            .get(&host.memcg)
            .map(|tenant| &tenant.hard_limit)
    }

    /// Returns a tenant's usage in bytes: what the kernel charges to its group with all groups
    /// below it. There are two exceptions:
    ///
    /// - A group of the host above our root: the root's charge is subtracted, as made tenants do
    ///   not belong to `host`.
    /// - The root, if its budget includes the host's groups: usage of `host` and of the made
    ///   tenants together, less unmapped page cache. No hard limit makes the kernel drop that
    ///   cache, and the kernel drops it as soon as memory is needed.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub(super) fn used(&self, tenant: &Tenant) -> io::Result<u64> {
        if tenant.memcg == MemcgId::ROOT
            && let Some(host) = self.budget_of_host()
        {
            return Ok(host.charged()?.saturating_sub(host.cache_unmapped()?));
        }
        let charged = tenant.hard_limit.charged()?;
        match self.root_below(tenant) {
            Some(root) => Ok(charged.saturating_sub(root.charged()?)),
            None => Ok(charged),
        }
    }

    /// Returns the root's group if this tenant is a group of the host above it, otherwise `None`.
    /// The kernel's figures of such a group include the root's, and the tenant's figures must not.
    pub(super) fn root_below(&self, tenant: &Tenant) -> Option<&HardLimit> {
        let root = self
            .tenants
            .get(&MemcgId::ROOT)
            .map(|root| &root.hard_limit);
        let is_above = |root: &&HardLimit| {
            root.group()
                .path
                .starts_with(&tenant.hard_limit.group().path)
        };
        root.filter(|_| tenant.of_host).filter(is_above)
    }

    /// Returns the swapped-out bytes of a tenant with all tenants below it: the larger of the
    /// kernel's count for its group and `by_tables`, the count in page tables.
    pub(super) fn swapped(&self, tenant: &Tenant, by_tables: u64) -> u64 {
        let of = |hard_limit: &HardLimit| {
            let usage = self.groups.usage(hard_limit.group()).ok().flatten();
            usage.and_then(|usage| usage.swap).unwrap_or(0)
        };
        let host = self.budget_of_host();
        let whole = host.filter(|_| tenant.memcg == MemcgId::ROOT);
        let made = self.root_below(tenant).map_or(0, of);
        let counted = of(whole.unwrap_or(&tenant.hard_limit));
        counted.saturating_sub(made).max(by_tables)
    }

    /// Updates the engine with the protection that the host has set for its groups, if these groups
    /// may be reclaimed from.
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

    /// Whether a directory below a group of the host is a group of the host, and not our root or
    /// another manager's group.
    ///
    /// # Errors
    /// Descriptors or memory are lacking.
    pub(super) fn is_hosts_own(&self, dir: &Path) -> Result<bool, Errno> {
        let root = self.tenants.get(&MemcgId::ROOT);
        if root.is_some_and(|root| root.hard_limit.group().dir == dir) {
            return Ok(false);
        }
        match walk::open(dir) {
            Ok(dir) => Ok(!HardLimit::has_any_manager_open(&dir)),
            Err(errno) if is_lack(errno) => Err(errno),
            // The group is gone.
            Err(_) => Ok(true),
        }
    }
}
