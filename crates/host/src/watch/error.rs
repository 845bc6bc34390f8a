//! Why a target cannot be watched.
//!
//! Invariant: what failed and why in the message, what to do in the hint, and whether it is a lack of
//! rights or of the kernel's (exit code 3) or another failure (1).

use rustix::io::Errno;

use crate::system::Error;
use crate::system::descriptors::LACK_HINT;

/// Watching failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct WatchError {
    what: String,
    hint: String,
    is_missing: bool,
    is_passing: bool,
}

impl WatchError {
    /// A failure.
    pub(crate) fn failure(what: impl Into<String>, hint: impl Into<String>) -> WatchError {
        WatchError {
            what: what.into(),
            hint: hint.into(),
            is_missing: false,
            is_passing: false,
        }
    }

    /// A privilege or a kernel feature is missing.
    pub(crate) fn missing(what: impl Into<String>, hint: impl Into<String>) -> WatchError {
        WatchError {
            is_missing: true,
            ..WatchError::failure(what, hint)
        }
    }

    /// Descriptors or memory are lacking just now.
    pub(crate) fn lack(errno: Errno) -> WatchError {
        WatchError {
            is_passing: true,
            ..WatchError::failure(format!("cannot read control groups: {errno}"), LACK_HINT)
        }
    }

    /// Whether the same may succeed later: descriptors or memory were lacking.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether a privilege or a kernel feature is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }
}

impl From<Error> for WatchError {
    fn from(error: Error) -> WatchError {
        let is_missing = error.is_denied() || matches!(error, Error::NoController { .. });
        WatchError {
            what: error.to_string(),
            hint: error.hint(),
            is_missing,
            is_passing: error.lack().is_some(),
        }
    }
}
