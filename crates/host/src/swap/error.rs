//! Why swap could not be switched.
//!
//! Invariant: `Display` says what failed and why, [`SwapError::hint`] what to do. What a failed
//! command made is removed again, or the error names it.

use std::io;
use std::path::PathBuf;

use crate::system::Error;

/// The error of all commands that switch swap. Sizes are bytes.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// The request itself makes no sense.
    #[error("cannot switch swap on: {why}")]
    BadRequest {
        /// What is wrong with the request.
        why: String,
        /// What to request instead.
        hint: String,
    },
    /// The device that the user named cannot be used.
    #[error("{what}: {why}")]
    BadDevice {
        /// The operation that failed.
        what: String,
        /// What is wrong with the device.
        why: String,
    },
    /// A right is missing, or a feature of this kernel or file system.
    #[error("{what}: {why}")]
    Missing {
        /// The operation that failed.
        what: String,
        /// The right or the feature that is missing.
        why: String,
        /// How to get the right or the feature.
        hint: String,
    },
    /// This owner has an active area already whose file was removed, and may have only one.
    #[error("pagetide's swap is already on: {}", path.display())]
    AlreadyOn {
        /// The device or the file.
        path: PathBuf,
    },
    /// Managers or other users need the area, or another user switched it on.
    #[error("cannot switch {} off: {why}", path.display())]
    Needed {
        /// The device or the file.
        path: PathBuf,
        /// What needs the area, or the user who switched it on.
        why: String,
    },
    /// This owner has no area to switch off or to recompress.
    #[error("there is no swap that pagetide switched on{why}")]
    NothingOn {
        /// What happened to the area, if that is known; else empty.
        why: String,
    },
    /// The swapped-out pages do not fit in memory.
    #[error("cannot switch {} off: {why}", path.display())]
    NoRoom {
        /// The device or the file.
        path: PathBuf,
        /// The sizes that are needed and available, or the control group that would exceed its
        /// limit.
        why: String,
        /// What the user can do.
        hint: String,
    },
    /// Something else has the recorded path by now.
    #[error("{} is not changed: {why}", path.display())]
    NotOurs {
        /// The recorded path.
        path: PathBuf,
        /// How that differs from the recorded area.
        why: String,
    },
    /// Another program took the device that we had just made.
    #[error("cannot set up {}: another program took it meanwhile", path.display())]
    Taken {
        /// The device.
        path: PathBuf,
    },
    /// Another command is running: two at once would undo each other's work.
    #[error("another `pagetide swap` is running")]
    Running,
    /// Another process uses the area of this owner.
    #[error("another pagetide {owner} is running")]
    InUse {
        /// The owner.
        owner: String,
    },
    /// The kernel refused an operation.
    #[error("{what}: {why}")]
    Failed {
        /// The operation.
        what: String,
        /// The kernel's error.
        why: String,
        /// What the user can do.
        hint: String,
    },
    /// Reading from the kernel failed.
    #[error(transparent)]
    System(#[from] Error),
}

/// Hint of the errors for a missing right.
const ROOT: &str = "run as root, outside of containers";
/// Hint of the errors for an area that is not as expected.
const STATUS: &str = "see what swap there is: pagetide swap status";

impl SwapError {
    /// Returns [`SwapError::Missing`] if a right is missing or the file system is read-only, else
    /// [`SwapError::Failed`]. `what` is the operation that the kernel refused.
    pub(super) fn io(what: impl Into<String>, error: &io::Error) -> SwapError {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        let (what, why) = (what.into(), error.to_string());
        match error.kind() {
            PermissionDenied | ReadOnlyFilesystem => SwapError::missing(what, why, ROOT),
            _ => SwapError::failed(what, why, "see `dmesg` for what the kernel says of it"),
        }
    }

    /// Returns [`SwapError::Missing`].
    pub(super) fn missing(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> SwapError {
        let (what, why, hint) = (what.into(), why.into(), hint.into());
        SwapError::Missing { what, why, hint }
    }

    /// Returns [`SwapError::Failed`].
    pub(super) fn failed(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> SwapError {
        let (what, why, hint) = (what.into(), why.into(), hint.into());
        SwapError::Failed { what, why, hint }
    }

    /// Returns [`SwapError::BadRequest`].
    pub(super) fn bad(why: impl Into<String>, hint: impl Into<String>) -> SwapError {
        let (why, hint) = (why.into(), hint.into());
        SwapError::BadRequest { why, hint }
    }

    /// Returns this error with the addition that `left` could not be removed again, because of
    /// `error`.
    pub(super) fn and_left(self, left: &str, error: &io::Error) -> SwapError {
        let hint = format!("`pagetide swap off` tries again to remove {left}");
        let why = format!("and {left} could not be removed again: {error}");
        SwapError::failed(self.to_string(), why, hint)
    }

    /// Returns what the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            SwapError::BadRequest { hint, .. }
            | SwapError::Missing { hint, .. }
            | SwapError::NoRoom { hint, .. }
            | SwapError::Failed { hint, .. } => hint.clone(),
            SwapError::AlreadyOn { .. } => {
                "its file was removed, so it stays on until the machine restarts".to_owned()
            }
            SwapError::Needed { .. } => {
                "end what needs it, or switch it off all the same: the same command with --force"
                    .to_owned()
            }
            SwapError::NothingOn { .. }
            | SwapError::NotOurs { .. }
            | SwapError::BadDevice { .. } => STATUS.to_owned(),
            SwapError::Taken { .. } | SwapError::Running | SwapError::InUse { .. } => {
                "try again in a moment".to_owned()
            }
            SwapError::System(error) => error.hint(),
        }
    }

    /// Whether the request would fail on any host.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        matches!(
            self,
            SwapError::BadRequest { .. } | SwapError::BadDevice { .. }
        )
    }

    /// Whether a right, or a feature of the kernel or of a file system, is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            SwapError::Missing { .. } => true,
            SwapError::System(error) => error.is_denied(),
            _ => false,
        }
    }
}
