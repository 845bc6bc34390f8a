//! Why there can be no wall.
//!
//! Invariant: `Display` says what failed and why, [`WallError::hint`] what to do. All of these are lacks of
//! the host or of rights (exit code 3), found before anything is started.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;

use super::scope;
use crate::system::Error;

const DELEGATED: &str = "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes pagetide run ...";

/// What to do where a group of version 2 has processes: the kernel limits none below it then.
pub(crate) fn make_room(group: &Path) -> String {
    let group = group.display();
    format!(
        "move all that is in it to one below: mkdir {group}/init; for pid in $(cat {group}/cgroup.procs); do echo $pid >{group}/init/cgroup.procs; done"
    )
}

/// Why there can be no control group of our own.
#[derive(Debug, thiserror::Error)]
pub enum WallError {
    /// No hierarchy counts memory, or `/proc` cannot be read.
    #[error(transparent)]
    Host(#[from] Error),
    /// Our own group is outside of what is mounted.
    #[error(
        "cannot make a control group: the group that we are in is not below the mount that we see"
    )]
    Unseen,
    /// The file system of control groups is mounted read-only.
    #[error("cannot make the control group {}: it is mounted read-only", path.display())]
    ReadOnly {
        /// Which.
        path: PathBuf,
    },
    /// This user may not.
    #[error("cannot make the control group {}: {why}", path.display())]
    Denied {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        why: io::Error,
    },
    /// The kernel refuses it for another reason.
    #[error("cannot make the control group {}: {why}", path.display())]
    Refused {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        why: io::Error,
    },
    /// It was made, and memory is not counted in it.
    #[error("the control group {} does not limit memory: {why}", path.display())]
    NoLimits {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        why: io::Error,
    },
    /// Version 2, and no group nearby can have one below it.
    #[error("no place for a control group below {} or above: {why}", own.display())]
    NoPlace {
        /// The group that we are in.
        own: PathBuf,
        /// What was tried last.
        why: String,
    },
}

impl WallError {
    pub(super) fn making(path: &Path, errno: Errno) -> WallError {
        let (path, why) = (path.to_owned(), io::Error::from(errno));
        match errno {
            Errno::ROFS => WallError::ReadOnly { path },
            Errno::ACCESS | Errno::PERM => WallError::Denied { path, why },
            _ => WallError::Refused { path, why },
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            WallError::Host(error) => error.hint(),
            WallError::Unseen => {
                "mount the whole hierarchy, or run inside of the part that is mounted".to_owned()
            }
            WallError::ReadOnly { path } => format!(
                "mount it writable (mount -o remount,rw, or start the container so): it holds {}",
                path.display()
            ),
            // As root of a container: nothing is above it, and nobody there could make a scope.
            WallError::NoPlace { own, .. } if geteuid().is_root() && !scope::is_there() => {
                make_room(own)
            }
            WallError::Denied { .. } | WallError::NoPlace { .. } => DELEGATED.to_owned(),
            WallError::Refused { .. } => {
                "look for a limit on groups (cgroup.max.descendants, cgroup.max.depth) above it"
                    .to_owned()
            }
            WallError::NoLimits { .. } => {
                "enable the memory controller (boot without cgroup_disable=memory)".to_owned()
            }
        }
    }
}
