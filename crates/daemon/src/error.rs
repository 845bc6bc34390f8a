//! The error type of this crate's public functions.
//!
//! Invariant: `Display` says what failed and why, [`Error::hint`] what to do, and
//! [`Error::exit_code`] the exit status of the process. A manager sends such an error to the
//! commands as JSON.

use host::hard_limit::HardLimitError;
use host::swap::SwapError;
use host::watch::WatchError;
use serde::{Deserialize, Serialize};

use crate::options::OptionsError;

/// Exit status of `pagetide` when it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// A failure of any other kind.
    Failure = 1,
    /// The requested options make no sense.
    Usage = 2,
    /// A privilege or a kernel feature is missing.
    Missing = 3,
    /// The command was found and cannot be run.
    NotExecutable = 126,
    /// The command was not found.
    NotFound = 127,
}

/// An error: what failed and why, what to do, and the exit status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    hint: String,
    exit: u8,
}

impl Error {
    /// Returns an error with [`ExitCode::Failure`].
    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::ending(ExitCode::Failure, what, hint)
    }

    /// Returns an error with [`ExitCode::Missing`]: a privilege or a kernel feature is missing.
    pub fn missing(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::ending(ExitCode::Missing, what, hint)
    }

    /// Returns an error with this exit status: what failed and why, and what to do.
    pub fn ending(exit: ExitCode, what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error {
            what: what.into(),
            hint: hint.into(),
            exit: exit as u8,
        }
    }

    /// Returns a text that says what the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The exit status of the process.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.exit
    }

    /// Returns the same error with `hint` as the suggestion what to do.
    #[must_use]
    pub fn or_else(self, hint: &str) -> Error {
        Error {
            hint: format!("{}\n{hint}", self.hint),
            ..self
        }
    }

    /// Returns the same error with the failed action in front: `cannot run x: WHY`.
    #[must_use]
    pub fn wanting(self, wanted: &str) -> Error {
        Error {
            what: format!("{wanted}: {}", self.what),
            ..self
        }
    }
}

impl From<WatchError> for Error {
    fn from(error: WatchError) -> Error {
        let (what, hint) = (error.to_string(), error.hint());
        match error.is_missing() {
            true => Error::missing(what, hint),
            false => Error::failed(what, hint),
        }
    }
}

impl From<host::system::Error> for Error {
    fn from(error: host::system::Error) -> Error {
        WatchError::from(error).into()
    }
}

/// The host lacks something that only the hard-limit cgroup needs.
impl From<HardLimitError> for Error {
    fn from(error: HardLimitError) -> Error {
        Error::missing(error.to_string(), error.hint())
    }
}

impl From<SwapError> for Error {
    fn from(error: SwapError) -> Error {
        let exit = match () {
            () if error.is_bad_request() => ExitCode::Usage,
            () if error.is_missing() => ExitCode::Missing,
            () => ExitCode::Failure,
        };
        Error::ending(exit, error.to_string(), error.hint())
    }
}

impl From<OptionsError> for Error {
    fn from(error: OptionsError) -> Error {
        Error::ending(ExitCode::Usage, error.to_string(), error.hint())
    }
}
