//! A recording look by look, for who needs more of it than references.
//!
//! Invariant: the same looks, in the same order, as [`super::Trace`] makes references of.

use std::path::Path;

use event_log::Look;

use super::error::TraceError;
use super::input::Input;
use super::recording::{Next, Recording};

/// Looks of a recording.
pub struct Looks(Recording);

impl Looks {
    /// Opens a recording, plain or compressed with zstd.
    ///
    /// # Errors
    /// It cannot be opened, or is none.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        Recording::new(Input::open(file)?).map(Self)
    }

    /// What a reader should know of it, read so far.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.0.words()
    }

    /// The next look; none at the end, which is the last whole look where it was cut off.
    ///
    /// # Errors
    /// It is damaged.
    pub fn next_look(&mut self) -> Result<Option<Look>, TraceError> {
        Ok(match self.0.next()? {
            Next::Look(look) => Some(look),
            Next::End => None,
        })
    }
}
