//! Reasons why pagetide can make no hard-limit cgroup.
//!
//! Invariant: `Display` says what failed and why; [`HardLimitError::hint`] says what the user can
//! do. Each error means that the host lacks something or that we lack rights (exit code 3). It is
//! found before any program is started.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;

use super::scope;
use crate::system::Error;

const DELEGATED: &str = "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes pagetide run ...";

/// Returns the hint for a version 2 cgroup that has processes: below such a cgroup the kernel
/// limits no cgroup.
pub(crate) fn make_room(group: &Path) -> String {
    let group = group.display();
    format!(
        "move its processes to a group below it: mkdir {group}/init; for pid in $(cat {group}/cgroup.procs); do echo $pid >{group}/init/cgroup.procs; done"
    )
}

/// The reason why pagetide can have no control group of its own.
#[derive(Debug, thiserror::Error)]
pub enum HardLimitError {
    /// No cgroup hierarchy counts memory, or `/proc` cannot be read.
    #[error(transparent)]
    Host(#[from] Error),
    /// Our own cgroup is outside of the mounted part of the hierarchy.
    #[error(
        "cannot make a control group: pagetide's own group is not below the mounted part of the hierarchy"
    )]
    Unseen,
    /// The file system of control groups is mounted read-only.
    #[error("cannot make the control group {}: it is mounted read-only", path.display())]
    ReadOnly {
        /// The cgroup's directory.
        path: PathBuf,
    },
    /// This user has no right to make a control group.
    #[error("cannot make the control group {}: {why}", path.display())]
    Denied {
        /// The cgroup's directory.
        path: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The kernel refuses to make the control group for another reason.
    #[error("cannot make the control group {}: {why}", path.display())]
    Refused {
        /// The cgroup's directory.
        path: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The control group was made, but the kernel does not count memory in it.
    #[error("the control group {} does not limit memory: {why}", path.display())]
    NoLimits {
        /// The cgroup's directory.
        path: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// On version 2: neither our cgroup nor one above it can have a child that counts memory.
    #[error("cannot make a control group below {} or any group above it: {why}", own.display())]
    NoPlace {
        /// The cgroup that we are in.
        own: PathBuf,
        /// The error of the last attempt.
        why: String,
    },
}

impl HardLimitError {
    /// Returns the error for a control group at `path` that could not be made.
    pub(super) fn making(path: &Path, errno: Errno) -> HardLimitError {
        let (path, why) = (path.to_owned(), io::Error::from(errno));
        match errno {
            Errno::ROFS => HardLimitError::ReadOnly { path },
            Errno::ACCESS | Errno::PERM => HardLimitError::Denied { path, why },
            _ => HardLimitError::Refused { path, why },
        }
    }

    /// Returns a text that says what the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            HardLimitError::Host(error) => error.hint(),
            HardLimitError::Unseen => {
                "mount the whole hierarchy, or run inside of the part that is mounted".to_owned()
            }
            HardLimitError::ReadOnly { path } => format!(
                "mount it writable (mount -o remount,rw, or start the container so): it holds {}",
                path.display()
            ),
            // We are root of a container: no cgroup above is visible, and no systemd could make a
            // scope.
            HardLimitError::NoPlace { own, .. } if geteuid().is_root() && !scope::is_there() => {
                make_room(own)
            }
            HardLimitError::Denied { .. } | HardLimitError::NoPlace { .. } => DELEGATED.to_owned(),
            HardLimitError::Refused { .. } => {
                "look for a limit on groups (cgroup.max.descendants, cgroup.max.depth) above it"
                    .to_owned()
            }
            HardLimitError::NoLimits { .. } => {
                "enable the memory controller (boot without cgroup_disable=memory)".to_owned()
            }
        }
    }
}
