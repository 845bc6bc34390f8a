//! The one error of this crate's surface.
//!
//! Invariant: `Display` says what failed and why, [`Error::hint`] what to do, [`Error::exit_code`] how
//! the process ends. It travels as text between a manager and the commands.

use host::swap::SwapError;
use host::wall::WallError;
use host::watch::WatchError;
use serde::{Deserialize, Serialize};

use crate::options::OptionsError;

/// How `pagetide` ends when it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// Something went wrong.
    Failure = 1,
    /// What was asked for makes no sense.
    Usage = 2,
    /// A privilege or a kernel feature is missing.
    Missing = 3,
    /// The command was found and cannot be run.
    NotExecutable = 126,
    /// The command was not found.
    NotFound = 127,
}

/// What failed and why, what to do, and how to end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    hint: String,
    exit: u8,
}

impl Error {
    /// A failure.
    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::ending(ExitCode::Failure, what, hint)
    }

    /// A privilege or a kernel feature is missing.
    pub fn missing(what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::ending(ExitCode::Missing, what, hint)
    }

    /// One that ends with a code of its own.
    pub fn ending(exit: ExitCode, what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error {
            what: what.into(),
            hint: hint.into(),
            exit: exit as u8,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// How the process ends.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.exit
    }

    /// Whether a privilege or a kernel feature is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.exit == ExitCode::Missing as u8
    }

    /// The same, with one more thing to do about it.
    #[must_use]
    pub fn or_else(self, hint: &str) -> Error {
        Error {
            hint: format!("{}\n{hint}", self.hint),
            ..self
        }
    }

    /// The same, with what was wanted before it: `cannot run x: WHY`.
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

/// What a host does not give is missing: the wall is the only thing that needs it.
impl From<WallError> for Error {
    fn from(error: WallError) -> Error {
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
