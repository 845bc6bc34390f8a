//! Errors: why a target cannot be watched.
//!
//! Invariant: the message says what failed and why; the hint says what the user can do. Either a
//! privilege or a kernel feature is missing (exit code 3), or something else failed (exit code 1).

use rustix::io::Errno;

use crate::system::Error;
use crate::system::descriptors::LACK_HINT;

/// Error of a watch: the target cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct WatchError {
    what: String,
    hint: String,
    is_missing: bool,
    is_passing: bool,
}

impl WatchError {
    /// Creates an error that is not due to missing privileges or kernel features (exit code 1).
    pub(crate) fn failure(what: impl Into<String>, hint: impl Into<String>) -> WatchError {
        WatchError {
            what: what.into(),
            hint: hint.into(),
            is_missing: false,
            is_passing: false,
        }
    }

    /// Creates an error for a missing privilege or kernel feature (exit code 3).
    pub(crate) fn missing(what: impl Into<String>, hint: impl Into<String>) -> WatchError {
        WatchError {
            is_missing: true,
            ..WatchError::failure(what, hint)
        }
    }

    /// Creates an error for a temporary lack of descriptors or memory.
    pub(crate) fn lack(errno: Errno) -> WatchError {
        WatchError {
            is_passing: true,
            ..WatchError::failure(format!("cannot read control groups: {errno}"), LACK_HINT)
        }
    }

    /// Returns whether a retry may succeed, as descriptors or memory were lacking only temporarily.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// Returns what the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Returns whether a privilege or a kernel feature is missing.
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
