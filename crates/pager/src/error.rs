//! The one error of the pager's surface.
//!
//! Invariant: `Display` says what failed and why, [`Error::hint`] what to do, [`Error::exit_code`]
//! how the process ends. Expected outcomes (target gone, busy, referenced again) are data, not this.

use crate::control::ControlError;
use crate::options::OptionsError;
use crate::vet::Refusal;

/// How `pagetide` ends when it fails (`interfaces.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// Something went wrong.
    Failure = 1,
    /// What was asked for makes no sense.
    Usage = 2,
    /// A privilege or a kernel feature is missing.
    Missing = 3,
}

/// Why a target is not, or no longer, managed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict themselves.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// This process, or this store, cannot be used.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The manager of the target did not answer as it should.
    #[error("{0}")]
    Control(#[from] ControlError),
    /// Anything else that went wrong.
    #[error("{what}: {why}")]
    Failed {
        /// What failed.
        what: String,
        /// Why.
        why: String,
        /// What to do.
        hint: String,
        /// How to end.
        exit: ExitCode,
    },
}

impl Error {
    /// A failure that no other variant describes.
    pub fn failed(
        what: impl Into<String>,
        why: impl std::fmt::Display,
        hint: impl Into<String>,
    ) -> Error {
        Error::Failed {
            what: what.into(),
            why: why.to_string(),
            hint: hint.into(),
            exit: ExitCode::Failure,
        }
    }

    /// A privilege or a kernel feature is missing.
    pub fn missing(
        what: impl Into<String>,
        why: impl std::fmt::Display,
        hint: impl Into<String>,
    ) -> Error {
        Error::Failed {
            what: what.into(),
            why: why.to_string(),
            hint: hint.into(),
            exit: ExitCode::Missing,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::Options(error) => error.hint(),
            Error::Refused(refusal) => refusal.hint(),
            Error::Control(error) => error.hint(),
            Error::Failed { hint, .. } => hint.clone(),
        }
    }

    /// How the process ends.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Error::Options(_) => ExitCode::Usage,
            Error::Refused(refusal) => refusal.exit_code(),
            Error::Control(error) => error.exit_code(),
            Error::Failed { exit, .. } => *exit,
        }
    }
}
