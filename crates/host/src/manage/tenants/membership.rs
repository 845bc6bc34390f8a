//! Finds the tenant of each process: from its group or, if a listing did not visit all groups, from
//! `/proc`.
//!
//! Invariant: if no scan visits the group of a process, the process belongs to the nearest tenant
//! above the group, which `/proc/PID/cgroup` names. If the group is so deep that the kernel does
//! not name it (PATH_MAX), the process belongs to the tenant of its parent. So no process is missed
//! because of the group that it is in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::left_out::{LeftOut, MARKED};
use crate::hard_limit::HardLimit;
use crate::system::cgroup::own_processes;
use crate::system::cgroup::walk::{self, Most, Next, is_gone};
use crate::system::descriptors::is_lack;

/// Maximum number of ancestors of a process that are searched for one with a known tenant.
const ANCESTORS_MAX: usize = 64;

/// Result of a listing: which processes belong to which tenant.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The tenant of each process, by PID.
    pub(super) tenant_map: BTreeMap<u32, MemcgId>,
    /// PIDs of processes that other managers have. They and all their descendants are not scanned.
    pub(super) strangers: BTreeSet<u32>,
    /// Whether groups were not visited, so that processes may be missing.
    pub(super) has_left_out: bool,
    /// Processes and groups that are not scanned because other managers have them.
    pub(super) managed: LeftOut,
    /// How many more groups that are not tenants may be visited.
    others_left: usize,
}

/// Where a group is, compared to the tree.
#[derive(Clone, Copy)]
enum GroupPosition {
    /// At the group of this tenant, or below it.
    Of(MemcgId),
    /// In a group of another manager.
    Stranger,
    /// Outside the tree.
    MembersOutside,
}

impl Listing {
    pub(super) fn new(others: usize) -> Listing {
        Listing {
            others_left: others,
            ..Listing::default()
        }
    }

    /// Counts a visit of a group that is not a tenant. Returns false if the maximum is reached.
    pub(super) fn may_visit(&mut self) -> bool {
        let left = self.others_left.checked_sub(1);
        self.others_left = left.unwrap_or(0);
        self.has_left_out |= left.is_none();
        left.is_some()
    }

    /// Moves the processes of `memcg`, which is no longer a tenant, to the tenant `above`.
    pub(super) fn hand_over(&mut self, memcg: MemcgId, above: MemcgId) {
        let all = self.tenant_map.values_mut().filter(|home| **home == memcg);
        all.for_each(|home| *home = above);
    }

    /// Lists the processes of a group that is not a tenant, and of all groups below it, as
    /// processes of the tenant `above`; if another manager has the group, as strangers. The path of
    /// `dir` is below `mount`. Returns how many of these groups were not visited, as far as known.
    pub(super) fn list_others(
        &mut self,
        above: MemcgId,
        (mount, dir): (&Path, &Path),
        is_managers: &dyn Fn(&OwnedFd) -> bool,
    ) -> Result<u64, Errno> {
        let top = match walk::open(dir) {
            Err(errno) if is_lack(errno) => return Err(errno),
            Err(_) => return Ok(0),
            Ok(top) => top,
        };
        let most = Most {
            groups: self.others_left.saturating_add(1),
            below_each: self.others_left,
        };
        let (mut visited_all, mut left_out, mut strangers_from) = (0, 0, None);
        let walked = walk::walk::<Errno>(top, most, &mut |visited| {
            visited_all += 1;
            left_out += walk::count_below(visited.dir)?.unwrap_or(0);
            left_out = left_out.saturating_sub(u64::from(visited.depth() > 0));
            if strangers_from.is_some_and(|depth| visited.depth() <= depth) {
                strangers_from = None;
            }
            if strangers_from.is_none() && is_managers(visited.dir) {
                strangers_from = Some(visited.depth());
                let path = visited.path(dir);
                let path = path.strip_prefix(mount).unwrap_or(&path);
                let what = format!("control group /{}", path.display());
                self.managed.add(what, MARKED);
            }
            let pids = match own_processes(visited.dir) {
                Err(errno) if is_lack(errno) => return Err(errno),
                pids => pids.unwrap_or_default(),
            };
            match strangers_from {
                Some(_) => self.strangers.extend(pids),
                None => self
                    .tenant_map
                    .extend(pids.into_iter().map(|pid| (pid, above))),
            }
            Ok(Next::Below)
        });
        self.others_left = self.others_left.saturating_sub(visited_all);
        match walked {
            Ok(true) => Ok(0),
            Ok(false) => {
                self.has_left_out = true;
                Ok(left_out.max(1))
            }
            Err(errno) if is_lack(errno) => Err(errno),
            Err(errno) => {
                self.has_left_out |= !is_gone(errno);
                Ok(0)
            }
        }
    }
}

impl Tenants {
    /// Lists, from `/proc`, the processes that no visited group contains.
    pub(super) fn list_by_process(&self, listing: &mut Listing) -> Result<(), Errno> {
        let proc = self.driver.watch.proc();
        let lack = |error: crate::system::Error| error.lack();
        let pids = match proc.pids() {
            Ok(pids) => pids,
            Err(error) => return lack(error).map_or(Ok(()), Err),
        };
        let mut places: HashMap<PathBuf, GroupPosition> = HashMap::new();
        let mut untold = Vec::new();
        for pid in pids {
            if listing.tenant_map.contains_key(&pid) || listing.strangers.contains(&pid) {
                continue;
            }
            match self.groups.of_process(proc, pid) {
                Ok(Some(group)) => {
                    let place = *places
                        .entry(group.path)
                        .or_insert_with_key(|path| self.place(path));
                    match place {
                        GroupPosition::Of(memcg) => drop(listing.tenant_map.insert(pid, memcg)),
                        GroupPosition::Stranger => drop(listing.strangers.insert(pid)),
                        GroupPosition::MembersOutside => {}
                    }
                }
                Ok(None) => {}
                Err(error) => match lack(error) {
                    Some(errno) => return Err(errno),
                    None => untold.push(pid),
                },
            }
        }
        for pid in untold {
            let mut above = pid;
            for _ in 0..ANCESTORS_MAX {
                let Ok(Some(stat)) = proc.stat(above) else {
                    break;
                };
                above = stat.parent;
                if let Some(home) = listing.tenant_map.get(&above).copied() {
                    listing.tenant_map.insert(pid, home);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns where the group with this path (below the mount point) is, compared to the tree.
    fn place(&self, path: &Path) -> GroupPosition {
        let root = self
            .tenants
            .get(&MemcgId::ROOT)
            .map(|root| root.hard_limit.group());
        let below_root = root.and_then(|root| path.strip_prefix(&root.path).ok());
        let host = self.host.as_ref();
        let below_host = || {
            let host = host?;
            let first = &self.tenants.get(&host.memcg)?.path;
            Some(first.join(path.strip_prefix(&host.group.path).ok()?))
        };
        let Some(path) = below_root.map(Path::to_owned).or_else(below_host) else {
            return GroupPosition::MembersOutside;
        };
        let levels = self.by_path.keys().map(|path| path.iter().count()).max();
        let mut at: PathBuf = path.iter().take(levels.unwrap_or(0)).collect();
        let memcg = loop {
            match self.by_path.get(&at) {
                Some(memcg) => break *memcg,
                None if !at.pop() => return GroupPosition::MembersOutside,
                None => {}
            }
        };
        let Some(tenant) = self.tenants.get(&memcg) else {
            return GroupPosition::MembersOutside;
        };
        // If two managers clear accessed bits of the same process, neither knows its ages.
        let mut dir = tenant.hard_limit.group().dir.clone();
        let below = path.iter().skip(at.iter().count());
        let is_managers = host.is_some()
            && below.take(super::group_share::LEVELS_MAX).any(|name| {
                dir.push(name);
                HardLimit::has_any_manager(&dir)
            });
        match is_managers {
            true => GroupPosition::Stranger,
            false => GroupPosition::Of(memcg),
        }
    }

    /// Sets how many groups below a tenant are reported only as part of the tenant.
    pub(super) fn note_left_out(&mut self, memcg: MemcgId, count: u64) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.left_out = count;
        }
    }

    /// Changes the number of groups that are reported only as part of a tenant by `more`, which may
    /// be negative.
    pub(super) fn add_left_out(&mut self, memcg: MemcgId, more: i64) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.left_out = tenant.left_out.saturating_add_signed(more);
        }
    }

    /// Logs that groups are reported only as part of the tenants above them. Logged are the first
    /// such groups, each time that their number has doubled since the last log line, and that there
    /// are none any more.
    pub(super) fn say_left_out(&mut self) {
        let left_out = self.tenants.values().filter(|tenant| tenant.left_out > 0);
        let most = left_out.clone().max_by_key(|tenant| tenant.left_out);
        let sum: u64 = left_out.map(|tenant| tenant.left_out).sum();
        let said = self.said_left_out;
        let what = match most {
            Some(most) if said == 0 || sum >= said.saturating_mul(2) => format!(
                "{sum} control groups or more have no figures of their own, and are part of the tenants above them (most of them of /{}): \
                 {}",
                most.path.display(),
                super::group_share::why()
            ),
            None if said > 0 => "all control groups have figures of their own again".to_owned(),
            _ => return,
        };
        self.said_left_out = sum;
        self.act(what);
    }
}
