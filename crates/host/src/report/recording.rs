//! What became of a recording, as data.

use serde::{Deserialize, Serialize};

/// A recording that a manager writes (`--record`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingReport {
    /// Bytes written.
    pub bytes: u64,
    /// Looks that they hold.
    pub looks: u64,
    /// Processor time and writing, milliseconds; a part of the overhead.
    pub took_ms: u64,
    /// Why nothing more is written, if it ended before the program did.
    pub stopped: Option<String>,
}
