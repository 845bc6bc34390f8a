//! The one error of this module's surface.
//!
//! Invariant: `Display` says what failed and why, [`Error::hint`] what to do. That a process or a
//! group went away is not an error but `None`.

use std::io;
use std::path::{Path, PathBuf};

/// Why the kernel's word could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that should be there cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        why: io::Error,
    },
    /// The kernel refuses it to this user.
    #[error("cannot read {}: {why}", path.display())]
    Denied {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        why: io::Error,
    },
    /// The process's memory is locked.
    #[error("cannot read {}: its memory is locked (does it wait for a file server?)", path.display())]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// A file of the kernel has a form that is not known.
    #[error("cannot understand {}: {what}", path.display())]
    Unknown {
        /// Which.
        path: PathBuf,
        /// What is odd about it.
        what: String,
    },
    /// The process that was asked for does not exist.
    #[error("there is no process {pid}: it ended, or it never was")]
    NoProcess {
        /// Which.
        pid: u32,
    },
    /// No hierarchy of control groups counts memory here.
    #[error("no memory controller: {why}")]
    NoController {
        /// What was looked for.
        why: String,
    },
    /// What was given names no control group of the memory controller.
    #[error("no control group {typed:?}: {why}")]
    NoGroup {
        /// As it was given.
        typed: String,
        /// What was found in its place.
        why: String,
        /// What to give instead.
        hint: String,
    },
    /// The kernel does not tell us of forks and exits.
    #[error("no process events: {why}")]
    NoEvents {
        /// Which step failed, and how.
        why: String,
        /// What to do.
        hint: &'static str,
    },
}

impl Error {
    /// A file that could not be read, as refused or as broken.
    pub(crate) fn reading(path: &Path, errno: rustix::io::Errno) -> Error {
        let (path, why) = (path.to_owned(), io::Error::from(errno));
        match errno {
            rustix::io::Errno::TIMEDOUT => Error::Locked { path },
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Error::Denied { path, why },
            _ => Error::Unreadable { path, why },
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::Unreadable { .. } if self.lack().is_some() => {
                super::descriptors::LACK_HINT.to_owned()
            }
            Error::Unreadable { .. } => "check that /proc and /sys are mounted".to_owned(),
            Error::Locked { .. } => {
                "look at what it waits for (/proc/PID/stack) and at the file servers that it uses (FUSE, NFS)"
                    .to_owned()
            }
            Error::Denied { .. } => {
                "run as root or as the process' own user; CAP_SYS_PTRACE allows it too".to_owned()
            }
            Error::Unknown { .. } => "report it with the file's contents and `uname -r`".to_owned(),
            Error::NoProcess { .. } => "list those that run: pagetide top".to_owned(),
            Error::NoController { .. } => {
                "mount it (mount -t cgroup2 none /sys/fs/cgroup) or enable it (write +memory to \
                 cgroup.subtree_control of the parent group); processes can be named by pid"
                    .to_owned()
            }
            Error::NoGroup { hint, .. } => hint.clone(),
            Error::NoEvents { hint, .. } => (*hint).to_owned(),
        }
    }

    /// What is lacking, if descriptors or memory are: the same may succeed later.
    #[must_use]
    pub(crate) fn lack(&self) -> Option<rustix::io::Errno> {
        let Error::Unreadable { why, .. } = self else {
            return None;
        };
        let errno = rustix::io::Errno::from_raw_os_error(why.raw_os_error()?);
        super::descriptors::is_lack(errno).then_some(errno)
    }

    /// Whether the process's memory is locked.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Error::Locked { .. })
    }

    /// Whether more rights would help.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Error::Denied { .. })
    }
}
