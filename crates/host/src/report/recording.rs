//! State of a recording of accessed bits, as data.

use serde::{Deserialize, Serialize};

/// A recording of accessed bits that a manager writes (`--record`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingReport {
    /// Size of the recording so far, bytes.
    pub bytes: u64,
    /// Number of scans in the recording.
    #[serde(rename = "looks")]
    pub scans: u64,
    /// Processor time of recording, plus the time of writing the file, milliseconds. Included in
    /// the report's overhead.
    pub took_ms: u64,
    /// Why the recording stopped before the program ended; `None` if it did not.
    pub stopped: Option<String>,
}
