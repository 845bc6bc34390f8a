//! Errors in a trace: what is wrong, where, and what the user can do.
//!
//! Invariant: every error names its file; an error inside the file also names a line (text) or a
//! byte (binary, counted after decompression).

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// Position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The whole file.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

/// An error in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Position in the file.
    pub place: Position,
    /// What failed, and why.
    pub what: String,
    /// What the user can do.
    pub remedy: Cow<'static, str>,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.place {
            Position::Whole => write!(f, "{file}: {}", self.what),
            Position::Line(line) => write!(f, "{file}: line {line}: {}", self.what),
            Position::Byte(byte) => write!(f, "{file}: byte {byte}: {}", self.what),
        }
    }
}

impl std::error::Error for TraceError {}

/// An error whose position is not known yet.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) remedy: Cow<'static, str>,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// Returns a part of a file as text that is safe to show: at most 40 characters, without control
/// characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MOST)]);
    let mut shown: String = text
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MOST).is_some() || bytes.len() > 4 * MOST {
        shown.push_str("...");
    }
    shown
}
