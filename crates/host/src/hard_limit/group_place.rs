//! Finds where in the hierarchy the hard-limit cgroup can be made.
//!
//! Invariant: every limit of our own cgroup also holds for the hard-limit cgroup. If the hard-limit
//! cgroup is below ours, the kernel enforces that; otherwise we never set its limits above a
//! ceiling. We move only the calling process and its peers, within their own cgroup or to a scope
//! that systemd makes for them.
//!
//! Version 1: always below our own cgroup. Version 2 does not allow a cgroup other than the root to
//! have both processes and children that count memory (cgroups(7), "no internal processes"). So
//! these places are tried in this order:
//! 1. below our own cgroup, if that is the root, which may have such children;
//! 2. below our own cgroup, if all its processes are ours. They are moved to a leaf beside the
//!    hard-limit cgroup. This needs a delegated cgroup, as of `systemd-run --user --scope -p
//!    Delegate=yes`;
//! 3. in the same way in a transient scope that systemd delegates to us;
//! 4. beside our own cgroup, below the nearest cgroup above that enables the memory controller for
//!    its children and that we may write: as root without systemd.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::error::HardLimitError;
use super::files;
use super::limits::Limits;
use crate::system::cgroup::Version;
use crate::system::cgroup::walk::names_below;
use crate::system::proc::read_path;
use crate::system::text::{lines, words};
use crate::system::{Group, Groups, Proc};

const SUBTREE: &str = "cgroup.subtree_control";
/// Maximum time that systemd may take to move our processes.
const MOVE_TIMEOUT: Duration = Duration::from_secs(3);

/// A place for the hard-limit cgroup.
#[derive(Debug)]
pub(super) struct CgroupPlace {
    /// The cgroup below which the hard-limit cgroup is made.
    pub(super) parent: PathBuf,
    /// Limits in bytes that must hold for the hard-limit cgroup and that the kernel does not
    /// enforce there.
    pub(super) ceiling: Limits,
    /// The cgroup that our manager was moved to; `None` if it was not moved.
    pub(super) leaf: Option<ManagerLeaf>,
}

/// The cgroup of the manager beside the hard-limit cgroup. With it, their parent has no processes.
#[derive(Clone, Debug)]
pub(super) struct ManagerLeaf {
    dir: PathBuf,
    /// Whether we enabled the memory controller for the children of the leaf's parent.
    enabled: bool,
}

/// Requests a scope of systemd, in the slice that contains the cgroup; these pids are moved into
/// it.
pub(super) type AskScope<'a> = dyn Fn(&Group, &[u32]) -> Result<(), String> + 'a;

/// Input of the search for the hard-limit cgroup's place.
pub(super) struct Request<'a> {
    pub(super) groups: &'a Groups,
    pub(super) proc: &'a Proc,
    /// The processes that may be moved.
    pub(super) ours: &'a [u32],
    /// The name of the hard-limit cgroup.
    pub(super) name: &'a str,
    /// Requests a scope of systemd; `None` where there is no systemd.
    pub(super) scope: Option<&'a AskScope<'a>>,
}

impl Request<'_> {
    /// Finds a place for the hard-limit cgroup. `own` is the cgroup that our processes are in.
    pub(super) fn find(&self, own: &Group) -> Result<CgroupPlace, HardLimitError> {
        if self.groups.version == Version::V1 {
            return Ok(CgroupPlace::below(&own.dir, Limits::default(), None));
        }
        match enable_memory(&own.dir) {
            Ok(()) => return Ok(CgroupPlace::below(&own.dir, Limits::default(), None)),
            // On a read-only mount all other places fail too, and "run as root" would be a wrong
            // hint.
            Err(Errno::ROFS) => {
                return Err(HardLimitError::ReadOnly {
                    path: own.dir.clone(),
                });
            }
            Err(_) => {}
        }
        let mut tried = match self.alone(own) {
            Ok(leaf) => return Ok(CgroupPlace::below(&own.dir, Limits::default(), Some(leaf))),
            Err(why) => why,
        };
        if let Some(scope) = self.scope {
            match self.in_scope(own, scope) {
                Ok(place) => return Ok(place),
                Err(why) => tried = why,
            }
        }
        // If systemd made a scope that cannot be used, we stay in it, but the limits of our first
        // cgroup are the ceiling.
        self.beside(own).ok_or_else(|| HardLimitError::NoPlace {
            own: own.dir.clone(),
            why: tried,
        })
    }

    /// Makes a leaf below `own` and moves all processes of `own` there, if all of them are ours.
    fn alone(&self, own: &Group) -> Result<ManagerLeaf, String> {
        let inside = self.groups.own_processes(own).map_err(|e| e.to_string())?;
        let others = inside.as_deref().unwrap_or_default().iter();
        let others = others.filter(|pid| !self.ours.contains(pid)).count();
        if others > 0 {
            return Err(format!(
                "{others} other processes are in pagetide's own group"
            ));
        }
        let leaf = ManagerLeaf {
            dir: own.dir.join(format!("{}.manager", self.name)),
            enabled: true,
        };
        let failed = |errno: Errno| {
            leaf.undo();
            format!("{}: {errno}", leaf.dir.display())
        };
        rustix::fs::mkdir(&leaf.dir, 0o755.into())
            .map_err(|errno| format!("{}: {errno}", leaf.dir.display()))?;
        for pid in inside.unwrap_or_default() {
            put(&leaf.dir.join("cgroup.procs"), &pid.to_string()).map_err(failed)?;
        }
        enable_memory(&own.dir).map_err(failed)?;
        Ok(leaf)
    }

    /// Requests a scope, waits until all our processes are in it, and moves them to a leaf there.
    fn in_scope(&self, own: &Group, scope: &AskScope<'_>) -> Result<CgroupPlace, String> {
        scope(own, self.ours)?;
        let end = Instant::now() + MOVE_TIMEOUT;
        let new = loop {
            let pid = std::process::id();
            let now = self.groups.of_process(self.proc, pid);
            match now.map_err(|error| error.to_string())? {
                // systemd moves the processes one by one. After the memory controller is enabled
                // for the children, the kernel would refuse those still to be moved.
                Some(now) if now != *own && self.are_in(&now) => break now,
                _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                _ => return Err("systemd made a scope but did not move pagetide to it".to_owned()),
            }
        };
        let leaf = self.alone(&new)?;
        let ceiling = beside_limits(&own.dir, &new.dir, &self.groups.mount);
        Ok(CgroupPlace::below(&new.dir, ceiling, Some(leaf)))
    }

    /// Returns whether all processes that may be moved are in the cgroup. Processes that have ended
    /// do not count.
    fn are_in(&self, group: &Group) -> bool {
        let group_of = |pid: &u32| self.groups.of_process(self.proc, *pid).ok().flatten();
        let mut groups = self.ours.iter().filter_map(group_of);
        groups.all(|found| found == *group)
    }

    /// Finds the nearest cgroup above `own` that can have the hard-limit cgroup as child; `None` if
    /// there is none.
    fn beside(&self, own: &Group) -> Option<CgroupPlace> {
        let mount = &self.groups.mount;
        let mut above = own.dir.ancestors().skip(1);
        let parent = above.find(|dir| {
            dir.starts_with(mount)
                && may_write(dir)
                && may_write(&dir.join("cgroup.procs"))
                && enable_memory(dir).is_ok()
        })?;
        let ceiling = beside_limits(&own.dir, parent, mount);
        Some(CgroupPlace::below(parent, ceiling, None))
    }
}

impl CgroupPlace {
    /// Returns a place below `parent`. `ceiling`: limits that must hold there; `leaf`: the cgroup
    /// that our manager was moved to.
    fn below(parent: &Path, ceiling: Limits, leaf: Option<ManagerLeaf>) -> CgroupPlace {
        CgroupPlace {
            parent: parent.to_owned(),
            ceiling,
            leaf,
        }
    }
}

impl ManagerLeaf {
    /// Returns the empty leaf that a dead manager made beside its hard-limit cgroup; `None` if
    /// there is none. Whether that manager enabled the memory controller is unknown.
    pub(super) fn left_beside(hard_limit: &Path) -> Option<ManagerLeaf> {
        let name = hard_limit.file_name()?.to_str()?;
        let dir = hard_limit.with_file_name(format!("{name}.manager"));
        let enabled = false;
        dir.is_dir().then_some(ManagerLeaf { dir, enabled })
    }

    /// Returns whether the leaf is the only child of its parent.
    fn is_alone_below(&self, above: &Path) -> bool {
        let below = files::open_dir(above).and_then(|above| names_below(&above, 2));
        let name = self.dir.file_name().map(OsStr::as_bytes);
        below.is_ok_and(|below| {
            let mut names = below.names.iter().map(|name| Some(name.to_bytes()));
            names.len() == 1 && names.all(|found| found == name)
        })
    }

    /// Moves the processes back to the parent, if no other child of the parent needs the memory
    /// controller. Ignores failures: a leaf that remains limits nothing.
    pub(super) fn undo(&self) {
        let Some(above) = self.dir.parent() else {
            return;
        };
        if self.enabled && self.is_alone_below(above) {
            let _ = disable_memory(above);
            let inside = read_path(&self.dir.join("cgroup.procs"));
            for pid in lines(&inside.ok().flatten().unwrap_or_default()) {
                let _ = put(&above.join("cgroup.procs"), &String::from_utf8_lossy(pid));
            }
        }
        let _ = rustix::fs::rmdir(&self.dir);
    }
}

/// Returns the lowest limits of our own cgroup and of those cgroups above it that do not contain
/// `parent`. The kernel does not enforce these limits for a hard-limit cgroup below `parent`.
fn beside_limits(own: &Path, parent: &Path, mount: &Path) -> Limits {
    own.ancestors()
        .take_while(|dir| dir.starts_with(mount) && !parent.starts_with(dir))
        .map(Limits::of_v2)
        .fold(Limits::default(), Limits::least)
}

/// Enables the memory controller for the children of this cgroup, if it is not enabled yet.
pub(super) fn enable_memory(dir: &Path) -> Result<(), Errno> {
    let file = dir.join(SUBTREE);
    let text = read_path(&file)?.ok_or(Errno::NOENT)?;
    if words(text.trim_ascii()).any(|word| word == b"memory") {
        return Ok(());
    }
    put(&file, "+memory")
}

/// Disables the memory controller for the children of this cgroup.
pub(super) fn disable_memory(dir: &Path) -> Result<(), Errno> {
    put(&dir.join(SUBTREE), "-memory")
}

/// Returns whether we may write the file or directory at this path.
fn may_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::empty()).is_ok()
}

/// Writes the text to an existing file with one write(2).
fn put(path: &Path, text: &str) -> Result<(), Errno> {
    let dir = files::open_dir(path.parent().ok_or(Errno::NOENT)?)?;
    let name = path.file_name().and_then(|name| name.to_str());
    files::write(&dir, name.ok_or(Errno::NOENT)?, text)
}
