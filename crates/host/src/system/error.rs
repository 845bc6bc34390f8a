//! The error of all functions that read from the kernel.
//!
//! Invariant: `Display` says what failed and why, [`Error::hint`] what the user can do. A process
//! or a group that has disappeared is not an error: the result is then `None`.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be read from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that should be there cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The kernel does not allow this user to read a file.
    #[error("cannot read {}: {why}", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// Another task holds the lock of the process's memory (mmap_lock) without end, so the file
    /// cannot be read.
    #[error("cannot read {}: its memory is locked (does it wait for a file server?)", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A file of the kernel has an unknown format.
    #[error("cannot understand {}: {what}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What is unexpected in the file.
        what: String,
    },
    /// The requested process does not exist.
    #[error("there is no process {pid}: it has ended, or never existed")]
    NoProcess {
        /// The pid that was requested.
        pid: u32,
    },
    /// No hierarchy of control groups counts memory here.
    #[error("no memory controller: {why}")]
    NoController {
        /// What was found where the memory controller was expected.
        why: String,
    },
    /// The text that a user typed names no control group of the memory controller.
    #[error("no control group {typed:?}: {why}")]
    NoGroup {
        /// The text that the user typed.
        typed: String,
        /// What was found instead of a group.
        why: String,
        /// What to type instead.
        hint: String,
    },
    /// The kernel does not report forks and exits to us.
    #[error("no process events: {why}")]
    NoEvents {
        /// The operation that failed, and the kernel's error.
        why: String,
        /// What the user can do.
        hint: &'static str,
    },
}

impl Error {
    /// Returns the error for a file that could not be read: denied, locked or unreadable.
    pub(crate) fn reading(path: &Path, errno: rustix::io::Errno) -> Error {
        let (path, why) = (path.to_owned(), io::Error::from(errno));
        match errno {
            rustix::io::Errno::TIMEDOUT => Error::Locked { path },
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Error::Denied { path, why },
            _ => Error::Unreadable { path, why },
        }
    }

    /// Returns what the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::Unreadable { .. } if self.lack().is_some() => {
                super::descriptors::LACK_HINT.to_owned()
            }
            Error::Unreadable { .. } => "check that /proc and /sys are mounted".to_owned(),
            Error::Locked { .. } => {
                "check what it waits for (/proc/PID/stack) and the file servers that it uses (FUSE, NFS)"
                    .to_owned()
            }
            Error::Denied { .. } => {
                "run as root or as the process's own user; CAP_SYS_PTRACE allows it too".to_owned()
            }
            Error::Unknown { .. } => "report it with the file's contents and `uname -r`".to_owned(),
            Error::NoProcess { .. } => "list running processes: pagetide top".to_owned(),
            Error::NoController { .. } => {
                "mount it (mount -t cgroup2 none /sys/fs/cgroup) or enable it (write +memory to \
                 cgroup.subtree_control of the parent group); processes can be named by pid"
                    .to_owned()
            }
            Error::NoGroup { hint, .. } => hint.clone(),
            Error::NoEvents { hint, .. } => (*hint).to_owned(),
        }
    }

    /// Returns the errno if the kernel has no descriptors or no memory left, so that a retry may
    /// succeed later. `None` for all other errors.
    #[must_use]
    pub(crate) fn lack(&self) -> Option<rustix::io::Errno> {
        let Error::Unreadable { why, .. } = self else {
            return None;
        };
        let errno = rustix::io::Errno::from_raw_os_error(why.raw_os_error()?);
        super::descriptors::is_lack(errno).then_some(errno)
    }

    /// Returns whether another task holds the lock of the process's memory without end.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Error::Locked { .. })
    }

    /// Returns whether more rights would help.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Error::Denied { .. })
    }
}
