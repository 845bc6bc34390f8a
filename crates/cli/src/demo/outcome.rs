//! What the workload reports, and the file it reports into.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The workload's own account of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Over every byte and every version of every page, in hexadecimal.
    pub(super) checksum: String,
    /// Operations made.
    pub(super) ops: u64,
    /// Filling the memory.
    pub(super) fill_ms: u64,
    /// Touching it.
    pub(super) touch_ms: u64,
    /// Checking all of it.
    pub(super) check_ms: u64,
}

impl Outcome {
    /// Operations a second while it touched its memory.
    pub(super) fn ops_per_s(&self) -> u64 {
        self.ops.saturating_mul(1000) / self.touch_ms.max(1)
    }

    /// The whole run.
    pub(super) fn total_ms(&self) -> u64 {
        self.fill_ms + self.touch_ms + self.check_ms
    }
}

/// A memory file that the workload inherits (so it is not close-on-exec) and that leaves no trace.
pub(super) struct ResultFile(File);

impl ResultFile {
    pub(super) fn new() -> Result<ResultFile, Failure> {
        let file = memfd_create("pagetide-demo", MemfdFlags::empty()).map_err(|error| {
            let what = format!("cannot make a memory file: {error}");
            Failure::missing(what, "boot a kernel with CONFIG_MEMFD_CREATE")
        })?;
        Ok(ResultFile(File::from(file)))
    }

    /// Its descriptor's number, the same in the workload.
    pub(super) fn number(&self) -> String {
        self.0.as_raw_fd().to_string()
    }

    /// What the workload wrote.
    pub(super) fn read(mut self) -> Result<Outcome, Failure> {
        let mut text = String::new();
        let read = self
            .0
            .rewind()
            .and_then(|()| self.0.read_to_string(&mut text));
        let silent = |why: String| {
            let what = format!("cannot read the workload's result: {why}");
            Failure::new(what, "this is a defect of pagetide: please report it")
        };
        read.map_err(|error| silent(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| silent(error.to_string()))
    }
}
