//! Which tenant each process has, from its group or, where groups were left out, from itself.
//!
//! Invariant: a process whose group no scan visits has the nearest tenant above that group, as
//! `/proc/PID/cgroup` tells it; one whose group is so deep that the kernel does not tell it
//! (PATH_MAX) has the tenant of its parent. So no process is left out for where it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::Tenants;
use super::left_out::{LeftOut, MARKED};
use crate::system::cgroup::own_processes;
use crate::system::cgroup::walk::{self, Most, Next, is_gone};
use crate::system::descriptors::is_lack;
use crate::wall::Wall;

/// Steps up from a process to an ancestor whose tenant is known.
const ANCESTORS_MAX: usize = 64;

/// Which processes are where.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The tenant of each process, by pid.
    pub(super) homes: BTreeMap<u32, MemcgId>,
    /// Processes that other managers have: with all their descendants they are not ours to scan.
    pub(super) strangers: BTreeSet<u32>,
    /// Groups were left out, so processes may be missing.
    pub(super) has_left_out: bool,
    /// What other managers have, of that what would be scanned, with the reason.
    pub(super) managed: LeftOut,
    /// Groups that are no tenants' which may still be visited.
    others_left: usize,
}

/// Where a group is, as seen from the tree.
#[derive(Clone, Copy)]
enum Place {
    /// At a tenant's group or below it.
    Of(MemcgId),
    /// Another manager has it.
    Stranger,
    /// Neither.
    Outside,
}

impl Listing {
    pub(super) fn new(others: usize) -> Listing {
        Listing {
            others_left: others,
            ..Listing::default()
        }
    }

    /// Whether a group that is no tenant's may be visited.
    pub(super) fn may_visit(&mut self) -> bool {
        let left = self.others_left.checked_sub(1);
        self.others_left = left.unwrap_or(0);
        self.has_left_out |= left.is_none();
        left.is_some()
    }

    /// A tenant is none any more: its processes are of the one `above`.
    pub(super) fn hand_over(&mut self, memcg: MemcgId, above: MemcgId) {
        let all = self.homes.values_mut().filter(|home| **home == memcg);
        all.for_each(|home| *home = above);
    }

    /// Lists the processes of a group that is no tenant, and of all below it, as those of `above`,
    /// or as strangers where a manager has them. `dir` is below `mount`. How many groups it leaves out, as far as it knows
    /// of them.
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
                None => self.homes.extend(pids.into_iter().map(|pid| (pid, above))),
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
    /// Lists processes that no visited group has listed.
    pub(super) fn list_by_process(&self, listing: &mut Listing) -> Result<(), Errno> {
        let proc = self.driver.watch.proc();
        let lack = |error: crate::system::Error| error.lack();
        let pids = match proc.pids() {
            Ok(pids) => pids,
            Err(error) => return lack(error).map_or(Ok(()), Err),
        };
        let mut places: HashMap<PathBuf, Place> = HashMap::new();
        let mut untold = Vec::new();
        for pid in pids {
            if listing.homes.contains_key(&pid) || listing.strangers.contains(&pid) {
                continue;
            }
            match self.groups.of_process(proc, pid) {
                Ok(Some(group)) => {
                    let place = *places
                        .entry(group.path)
                        .or_insert_with_key(|path| self.place(path));
                    match place {
                        Place::Of(memcg) => drop(listing.homes.insert(pid, memcg)),
                        Place::Stranger => drop(listing.strangers.insert(pid)),
                        Place::Outside => {}
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
                if let Some(home) = listing.homes.get(&above).copied() {
                    listing.homes.insert(pid, home);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Where the group with this path, below the mount, is.
    fn place(&self, path: &Path) -> Place {
        let root = self
            .tenants
            .get(&MemcgId::ROOT)
            .map(|root| root.wall.group());
        let below_root = root.and_then(|root| path.strip_prefix(&root.path).ok());
        let host = self.host.as_ref();
        let below_host = || {
            let host = host?;
            let first = &self.tenants.get(&host.memcg)?.path;
            Some(first.join(path.strip_prefix(&host.group.path).ok()?))
        };
        let Some(path) = below_root.map(Path::to_owned).or_else(below_host) else {
            return Place::Outside;
        };
        let levels = self.by_path.keys().map(|path| path.iter().count()).max();
        let mut at: PathBuf = path.iter().take(levels.unwrap_or(0)).collect();
        let memcg = loop {
            match self.by_path.get(&at) {
                Some(memcg) => break *memcg,
                None if !at.pop() => return Place::Outside,
                None => {}
            }
        };
        let Some(tenant) = self.tenants.get(&memcg) else {
            return Place::Outside;
        };
        // Of two that clear accessed bits of one process neither knows an age.
        let mut dir = tenant.wall.group().dir.clone();
        let below = path.iter().skip(at.iter().count());
        let is_managers = host.is_some()
            && below.take(super::group_share::LEVELS_MAX).any(|name| {
                dir.push(name);
                Wall::is_anybodys(&dir)
            });
        match is_managers {
            true => Place::Stranger,
            false => Place::Of(memcg),
        }
    }

    /// Notes how many groups below a tenant are told only as part of it.
    pub(super) fn note_left_out(&mut self, memcg: MemcgId, count: u64) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.left_out = count;
        }
    }

    /// The same by so many more, or fewer.
    pub(super) fn add_left_out(&mut self, memcg: MemcgId, more: i64) {
        if let Some(tenant) = self.tenants.get_mut(&memcg) {
            tenant.left_out = tenant.left_out.saturating_add_signed(more);
        }
    }

    /// Says that groups are told only as part of those above them: when there are some first, when
    /// they are twice as many as was said, and when there are none any more.
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
