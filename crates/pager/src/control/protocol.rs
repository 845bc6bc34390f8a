//! The two JSON lines.
//!
//! Invariant: a line that decodes is one of the enums below; everything else is an error that
//! names what was wrong. Decoding is total: no input makes it panic or allocate beyond the line.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ExitCode};
use crate::options::Bytes;
use crate::report::{Report, Stat};

/// Longest request line, bytes, with its newline.
pub const REQUEST_BYTES_MAX: usize = 512;

/// Longest response line, bytes, with its newline; a report of thousands of children fits.
pub const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// What a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The report as it is now.
    Report {},
    /// The counters under the kernel's names.
    Stat {},
    /// Put out so many bytes, whatever the limits.
    Reclaim {
        /// How many.
        bytes: Bytes,
    },
    /// Give everything back and leave the target alone.
    Detach {},
    /// Who manages this target?
    Ping {},
}

/// Who answered a ping.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pong {
    /// The manager.
    pub manager: u32,
    /// Its version.
    pub version: String,
}

/// What the manager answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Report`].
    Report(Box<Report>),
    /// To [`Request::Stat`].
    Stat(Stat),
    /// To [`Request::Reclaim`]: what was really put out.
    Reclaimed {
        /// Bytes put out.
        bytes: Bytes,
    },
    /// To [`Request::Detach`]: the target is free.
    Detached,
    /// To [`Request::Ping`].
    Pong(Pong),
    /// The request was understood and could not be done, or not understood.
    Error(Complaint),
    /// The client's user may not ask.
    Denied {
        /// The manager's user.
        owner: u32,
    },
}

/// An error as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Complaint {
    /// What failed and why.
    pub what: String,
    /// What to do.
    pub hint: String,
    /// Exit code of the command that asked: 1, 2 or 3.
    pub exit: u8,
}

impl From<&Error> for Complaint {
    fn from(error: &Error) -> Complaint {
        Complaint {
            what: error.to_string(),
            hint: error.hint(),
            exit: error.exit_code() as u8,
        }
    }
}

impl Complaint {
    /// A complaint about the request itself.
    pub(super) fn about_request(why: impl std::fmt::Display) -> Complaint {
        Complaint {
            what: format!("cannot read the request: {why}"),
            hint: "use the pagetide command of the same version".to_owned(),
            exit: ExitCode::Failure as u8,
        }
    }
}

impl Request {
    /// Decodes one line, with or without its newline.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Request, Complaint> {
        if line.len() > REQUEST_BYTES_MAX {
            let why = format!("it is longer than {REQUEST_BYTES_MAX} bytes");
            return Err(Complaint::about_request(why));
        }
        serde_json::from_slice(line).map_err(Complaint::about_request)
    }

    /// The line, newline included.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        debug_assert!(line.len() <= REQUEST_BYTES_MAX);
        line
    }
}

impl Response {
    /// The line, newline included; a response that is too long becomes an error that says so.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        if line.is_empty() || line.len() >= RESPONSE_BYTES_MAX {
            let complaint = Complaint {
                what: format!("cannot answer: the answer is {} bytes long", line.len()),
                hint: "ask for `stat` instead".to_owned(),
                exit: ExitCode::Failure as u8,
            };
            line = serde_json::to_vec(&Response::Error(complaint)).unwrap_or_default();
        }
        line.push(b'\n');
        line
    }
}
