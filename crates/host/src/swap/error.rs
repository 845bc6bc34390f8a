//! Why swap could not be switched.
//!
//! Invariant: `Display` says what failed and why, [`SwapError::hint`] what to do; whatever a failed
//! command made is gone again, or the error names it.

use std::io;
use std::path::PathBuf;

use crate::system::Error;

/// The one error of this module's surface. Sizes are bytes.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// The request itself makes no sense.
    #[error("cannot switch swap on: {why}")]
    BadRequest {
        /// What is wrong with it.
        why: String,
        /// What to ask for instead.
        hint: String,
    },
    /// What was named is nothing that could do it.
    #[error("{what}: {why}")]
    BadDevice {
        /// What failed.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// This user may not, or this kernel or file system cannot.
    #[error("{what}: {why}")]
    Missing {
        /// What failed.
        what: String,
        /// What is missing for it.
        why: String,
        /// How to get it.
        hint: String,
    },
    /// One is enough.
    #[error("swap of pagetide's is on already: {}", path.display())]
    AlreadyOn {
        /// Where.
        path: PathBuf,
    },
    /// There is nothing to switch off.
    #[error("no swap that pagetide switched on is here{why}")]
    NothingOn {
        /// What became of it, where that is known.
        why: String,
    },
    /// What is out does not fit in memory.
    #[error("cannot switch {} off: {why}", path.display())]
    NoRoom {
        /// Which area.
        path: PathBuf,
        /// What would have to come back, and what is free.
        why: String,
        /// What to do.
        hint: String,
    },
    /// What the record names is somebody else's by now.
    #[error("{} is left alone: {why}", path.display())]
    NotOurs {
        /// What was recorded.
        path: PathBuf,
        /// How it differs.
        why: String,
    },
    /// Somebody took the device that we had just made.
    #[error("cannot set up {}: another program took it meanwhile", path.display())]
    Taken {
        /// The device.
        path: PathBuf,
    },
    /// Two at once would undo each other's work.
    #[error("another `pagetide swap` is at work")]
    Running,
    /// The area of this owner is in use.
    #[error("another pagetide {owner} is at work")]
    InUse {
        /// Whose it is.
        owner: &'static str,
    },
    /// A step failed.
    #[error("{what}: {why}")]
    Failed {
        /// Which.
        what: String,
        /// What the kernel said.
        why: String,
        /// What to do.
        hint: String,
    },
    /// The kernel's word could not be had.
    #[error(transparent)]
    System(#[from] Error),
}

const ROOT: &str = "run as root, outside of containers";
const STATUS: &str = "see what there is: pagetide swap status";

impl SwapError {
    /// A step that the kernel refused: a right that is missing, or a failure.
    pub(super) fn io(what: impl Into<String>, error: &io::Error) -> SwapError {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        let (what, why) = (what.into(), error.to_string());
        match error.kind() {
            PermissionDenied | ReadOnlyFilesystem => SwapError::missing(what, why, ROOT),
            _ => SwapError::failed(what, why, "see `dmesg` for what the kernel says of it"),
        }
    }

    pub(super) fn missing(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> SwapError {
        let (what, why, hint) = (what.into(), why.into(), hint.into());
        SwapError::Missing { what, why, hint }
    }

    pub(super) fn failed(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> SwapError {
        let (what, why, hint) = (what.into(), why.into(), hint.into());
        SwapError::Failed { what, why, hint }
    }

    pub(super) fn bad(why: impl Into<String>, hint: impl Into<String>) -> SwapError {
        let (why, hint) = (why.into(), hint.into());
        SwapError::BadRequest { why, hint }
    }

    /// The same failure, where its undoing failed too: what is left is named.
    pub(super) fn and_left(self, left: &str, error: &io::Error) -> SwapError {
        let hint = format!("`pagetide swap off` tries again to remove {left}");
        let why = format!("and {left} could not be removed again: {error}");
        SwapError::failed(self.to_string(), why, hint)
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            SwapError::BadRequest { hint, .. }
            | SwapError::Missing { hint, .. }
            | SwapError::NoRoom { hint, .. }
            | SwapError::Failed { hint, .. } => hint.clone(),
            SwapError::AlreadyOn { .. } => {
                "for another size: pagetide swap off, then on".to_owned()
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

    /// Whether the request was wrong, whatever the host.
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
