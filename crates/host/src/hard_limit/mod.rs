//! Control groups with limits: the hard-limit cgroup that we make around the processes of `run`,
//! and the cgroups of `serve`'s tenants.
//!
//! Invariant: `run` sets limits only on a cgroup that carries our name and our ownership xattr
//! (`ownership.rs`) and whose lock we hold. `serve` sets limits on tenants, which have our xattr
//! and lock. If a user has allowed it, `serve` also sets limits on the host's own cgroups, which
//! have neither (`tenant.rs`). On these, `serve` always restores what a killed manager had lowered
//! (`lowered.rs`). The limits of cgroups above stay as they are; on version 2 we only enable the
//! memory controller for the children of one of them. We move only the processes that are passed to
//! [`HardLimit::enter`] and [`HardLimit::take`] and, on version 2, our own manager
//! (`group_place.rs`). When a manager is killed, only the cgroup remains: its guard ([`guard`])
//! lifts the limits, and a later start claims the cgroup ([`HardLimit::claim_all`]).

mod attribute;
mod files;
mod pending_limits;
mod refaults;
mod scope;

mod error;
mod fresh;
mod handle;

// These modules use each other.
mod group_place;
mod limits;
mod lowered;
mod ownership;
mod tenant;

pub mod guard;
mod reclaim;

mod step_down;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::system::cgroup::Version;
use crate::system::cgroup::walk::{Most, Next, is_gone, walk};
use crate::system::{Group, Groups, Identity, Proc};

pub use error::HardLimitError;
pub(crate) use error::make_room;
use fresh::FreshCounters;
use group_place::{CgroupPlace, ManagerLeaf, Request};
use handle::{Handle, Opened};
use limits::Limits;
use ownership::OwnershipXattr;
pub use pending_limits::{PendingLimits, Refused};
pub(crate) use refaults::Refaults;
pub(crate) use scope::is_there as has_systemd;
pub use tenant::Below;

/// One control group that we limit. Clones of this value mean the same cgroup. Dropping the last
/// clone does not remove the cgroup, but releases our claim on it, as if the manager had ended.
#[derive(Clone, Debug)]
pub struct HardLimit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    groups: Groups,
    group: Group,
    /// The cgroup's directory. For a cgroup of our own, the manager holds a lock on it (flock(2))
    /// as long as it lives: a process that gets the lock knows that no earlier manager is alive.
    dir: Handle,
    manager: Identity,
    /// Limits, in bytes, of cgroups that are not above this one but whose limits must hold for it
    /// too.
    ceiling: Limits,
    /// The cgroup to which the manager moved, if it had to leave its own cgroup so that the kernel
    /// could limit memory in a child of that cgroup. `None` if the manager did not move.
    leaf: Option<ManagerLeaf>,
    /// A thread holds this lock from lowering a limit until it has restored the limit.
    turn: Mutex<()>,
    /// Number of charges that met a limit that we had lowered for a moment (version 1).
    forced_hits: AtomicU64,
    /// Keeps the kernel's counters of the cgroup fresh while a limit is set.
    fresh: Mutex<Option<FreshCounters>>,
}

/// Maximum time that [`HardLimit::remove`] waits until the kernel has released ended processes.
const REMOVE_TIMEOUT: Duration = Duration::from_millis(500);

impl HardLimit {
    /// Makes an empty cgroup for a manager, below the cgroup that we are in. On version 2 a cgroup
    /// with processes can have no child that counts memory: there the new cgroup is made at the
    /// nearest possible place (`group_place.rs`).
    ///
    /// `peers`: pids of further processes of ours that may be moved out of our cgroup together with
    /// the calling process.
    ///
    /// # Errors
    /// There is no place for the cgroup, or we may not make it. Then nothing stays behind.
    pub fn make(
        proc: &Proc,
        manager: Identity,
        peers: &[u32],
    ) -> Result<HardLimit, HardLimitError> {
        let groups = Groups::find(proc)?;
        let own = groups
            .of_process(proc, std::process::id())?
            .ok_or(HardLimitError::Unseen)?;
        let name = ownership::name(manager);
        let mut ours = vec![std::process::id(), manager.pid];
        ours.extend_from_slice(peers);
        ours.sort_unstable();
        ours.dedup();
        let scope = |own: &Group, pids: &[u32]| scope::start(&name, own, pids);
        let request = Request {
            groups: &groups,
            proc,
            ours: &ours,
            name: &name,
            scope: scope::is_there().then_some(&scope),
        };
        let place = request.find(&own)?;
        match HardLimit::make_at(groups, &place, manager, &name) {
            Ok(hard_limit) => Ok(hard_limit),
            Err(error) => {
                if let Some(leaf) = &place.leaf {
                    leaf.undo();
                }
                Err(error)
            }
        }
    }

    fn make_at(
        groups: Groups,
        place: &CgroupPlace,
        manager: Identity,
        name: &str,
    ) -> Result<HardLimit, HardLimitError> {
        let path = place.parent.join(name);
        let failed = |errno| HardLimitError::making(&path, errno);
        rustix::fs::mkdir(&path, files::PASSED_THROUGH.into()).map_err(failed)?;
        let mark = OwnershipXattr {
            manager,
            ceiling: place.ceiling,
        };
        let open = || -> Result<OwnedFd, Errno> {
            let dir = files::open_dir(&path)?;
            flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
            mark.set(&dir)?;
            Ok(dir)
        };
        let hard_limit = open().map_err(failed).and_then(|dir| {
            let group = group_of(&groups, &path).ok_or(HardLimitError::Unseen)?;
            let hard_limit =
                HardLimit::of(groups, group, Handle::Held(dir), &mark, place.leaf.clone());
            // If the kernel counts no memory in the cgroup, this write of limits fails.
            hard_limit
                .lift()
                .and_then(|()| hard_limit.charged())
                .map_err(|why| HardLimitError::NoLimits {
                    path: path.clone(),
                    why,
                })?;
            Ok(hard_limit)
        });
        if hard_limit.is_err() {
            let _ = rustix::fs::rmdir(&path);
        }
        hard_limit
    }

    fn of(
        groups: Groups,
        group: Group,
        dir: Handle,
        mark: &OwnershipXattr,
        leaf: Option<ManagerLeaf>,
    ) -> HardLimit {
        HardLimit(Arc::new(Inner {
            groups,
            group,
            dir,
            manager: mark.manager,
            ceiling: mark.ceiling,
            leaf,
            turn: Mutex::new(()),
            forced_hits: AtomicU64::new(0),
            fresh: Mutex::new(None),
        }))
    }

    /// Claims for `manager` the cgroups of dead managers of `run`, anywhere in the visible
    /// hierarchy, if they belong to our user. Returns these cgroups; their limits stay until the
    /// caller changes them.
    ///
    /// # Errors
    /// There are no control groups that count memory.
    pub fn claim_all(proc: &Proc, manager: Identity) -> Result<Vec<HardLimit>, HardLimitError> {
        let groups = Groups::find(proc)?;
        Ok(HardLimit::claim_below(&groups, manager))
    }

    /// Claims the cgroups of dead managers of `run`. Every start of `run` calls this, so the time
    /// is bounded, however many cgroups exist.
    fn claim_below(groups: &Groups, manager: Identity) -> Vec<HardLimit> {
        const MOST: Most = Most {
            groups: 20_000,
            below_each: 1000,
        };
        let mut found = Vec::new();
        let Ok(top) = files::open_dir(&groups.mount) else {
            return found;
        };
        // A cgroup that cannot be read is not claimed, and is not an error.
        let _ = walk::<Errno>(top, MOST, &mut |visited| {
            if visited.name().is_some_and(HardLimit::is_of_run) {
                let path = visited.path(&groups.mount);
                found.extend(HardLimit::claim(groups, &path, manager));
            }
            Ok(Next::Below)
        });
        found
    }

    fn claim(groups: &Groups, path: &Path, manager: Identity) -> Option<HardLimit> {
        ownership::manager_of_name(path.file_name()?)?;
        let dir = files::open_dir(path).ok()?;
        let stat = rustix::fs::fstat(&dir).ok()?;
        // The cgroup belongs to another user: we cannot know whether its limits matter.
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return None;
        }
        let mark = OwnershipXattr::of(&dir)?;
        flock(&dir, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mark = OwnershipXattr { manager, ..mark };
        mark.set(&dir).ok()?;
        let group = group_of(groups, path)?;
        let leaf = ManagerLeaf::left_beside(path);
        Some(HardLimit::of(
            groups.clone(),
            group,
            Handle::Held(dir),
            &mark,
            leaf,
        ))
    }

    /// Returns the control group: its path in the hierarchy, and its directory.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// Returns the cgroup hierarchy that the control group is in.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// Returns the version of the cgroup interface (1 or 2) by which the limits are set.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.groups.version
    }

    /// Returns the manager that owns the cgroup.
    #[must_use]
    pub fn manager(&self) -> Identity {
        self.0.manager
    }

    fn dir(&self) -> Result<Opened<'_>, Errno> {
        self.0.dir.open(&self.0.group.dir)
    }

    /// Returns the open directory of the cgroup, for several uses in a row.
    fn opened(&self) -> io::Result<Opened<'_>> {
        self.dir().map_err(|errno| self.io_error("", errno))
    }

    /// Writes `text` to the cgroup's file of the name `file`.
    fn put(&self, file: &str, text: &str) -> Result<(), Errno> {
        files::write(&*self.dir()?, file, text)
    }

    /// Moves a process with all its threads into the cgroup. Memory that was charged for the
    /// process before stays charged to its former cgroup, so callers move a process before its
    /// exec.
    ///
    /// # Errors
    /// The process or the cgroup is gone, or the process may not be moved.
    pub fn enter(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Returns the pids of the processes in the cgroup and in the cgroups below it.
    ///
    /// # Errors
    /// If the cgroup is gone, or cannot be read.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let pids = self.0.groups.processes(&self.0.group);
        pids.map_err(io::Error::other)?
            .ok_or_else(|| self.io_error("cgroup.procs", Errno::NOENT))
    }

    /// Lifts the limits, and removes the cgroup if it is empty. Returns whether the cgroup is gone.
    /// If it contains processes, or cgroups that other programs made, they stay there without a
    /// limit.
    ///
    /// # Errors
    /// The kernel refuses for a reason other than that the cgroup is in use.
    pub fn remove(&self) -> io::Result<bool> {
        match self.lift() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.undo_leaf();
                return Ok(true);
            }
            Err(error) => return Err(error),
        }
        let end = Instant::now() + REMOVE_TIMEOUT;
        loop {
            match rustix::fs::rmdir(&self.0.group.dir) {
                Ok(()) | Err(Errno::NOENT) => break,
                Err(Errno::BUSY | Errno::NOTEMPTY) => {}
                Err(errno) => return Err(self.io_error("", errno)),
            }
            // Waiting does not help while the cgroup has processes, or cgroups that other programs
            // made below it.
            let is_used = self.has_below() || !self.pids().unwrap_or_default().is_empty();
            if is_used || Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.undo_leaf();
        Ok(true)
    }

    /// Returns whether there are cgroups below this one; true if that cannot be read.
    fn has_below(&self) -> bool {
        self.below(1)
            .map_or_else(|errno| !is_gone(errno), |below| below.count > 0)
    }

    /// Undoes the manager's move to a leaf cgroup, if there was one, and removes that leaf.
    fn undo_leaf(&self) {
        if let Some(leaf) = &self.0.leaf {
            leaf.undo();
        }
    }

    /// Returns whether the cgroup still exists. Checks the open directory as well as the path:
    /// after a restart of a service, another cgroup may have the same path.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let procs = self.file("cgroup.procs");
        !matches!(procs, Err(Errno::NODEV | Errno::NOENT))
            && self.0.group.dir.join("cgroup.procs").exists()
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        self.file(file).map_err(|errno| self.io_error(file, errno))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        self.put(file, text)
            .map_err(|errno| self.io_error(file, errno))
    }

    /// Returns the kernel's error, with the path of the cgroup's file to which it applies.
    fn io_error(&self, file: &str, errno: Errno) -> io::Error {
        let mut text = self.0.group.dir.join(file).display().to_string();
        let _ = write!(text, ": {errno}");
        io::Error::new(files::kind(errno), text)
    }
}

/// Returns the cgroup whose directory is `dir`; `None` if `dir` is not below the mount.
fn group_of(groups: &Groups, dir: &Path) -> Option<Group> {
    let relative = dir.strip_prefix(&groups.mount).ok()?;
    Some(Group {
        path: PathBuf::from("/").join(relative),
        dir: dir.to_owned(),
    })
}
