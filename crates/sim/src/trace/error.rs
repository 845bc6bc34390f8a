//! What is wrong with a trace, where, and what to do about it.
//!
//! Invariant: every error names its file; one that lies inside the file names a line (text) or a
//! byte (binary, counted after decompression).

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere in particular.
    Whole,
    /// This line, from 1.
    Line(u64),
    /// This byte, from 0.
    Byte(u64),
}

/// A trace that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file as it was named.
    pub file: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What failed, and why.
    pub what: String,
    /// What to do.
    pub remedy: Cow<'static, str>,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.place {
            Place::Whole => write!(f, "{file}: {}", self.what),
            Place::Line(line) => write!(f, "{file}: line {line}: {}", self.what),
            Place::Byte(byte) => write!(f, "{file}: byte {byte}: {}", self.what),
        }
    }
}

impl std::error::Error for TraceError {}

/// An error before its place is known.
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

/// A piece of a hostile file as it may be shown: short, and without control characters.
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
