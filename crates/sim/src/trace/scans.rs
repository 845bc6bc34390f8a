//! Reads a recording scan by scan, for callers that need more than references.
//!
//! Invariant: these are the scans from which [`super::Trace`] makes references, in the same order.

use std::path::Path;

use event_log::Scan;

use super::error::TraceError;
use super::input::Input;
use super::recording::{Next, Recording};

/// The scans of a recording.
pub struct Scans(Recording);

impl Scans {
    /// Opens a recording, plain or compressed with zstd.
    ///
    /// # Errors
    /// If it cannot be opened or is not a recording.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        Recording::new(Input::open(file)?).map(Self)
    }

    /// Returns a remark for the user about the recording, as far as it was read; `None` if there is
    /// none.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.0.words()
    }

    /// Returns the next scan; `None` at the end. If the recording was cut off, the end is after its
    /// last complete scan.
    ///
    /// # Errors
    /// If the recording is damaged.
    pub fn next_scan(&mut self) -> Result<Option<Scan>, TraceError> {
        Ok(match self.0.next()? {
            Next::Scan(scan) => Some(scan),
            Next::End => None,
        })
    }
}
