//! What a scan must do with one process, and the outcome.

use std::io;

use super::reader::Job;

/// Outcome of a scan for one process.
#[derive(Debug)]
pub enum ScanOutcome {
    /// The process was walked, or is known to have been idle.
    Done,
    /// The process has ended, or has no memory.
    Gone,
    /// The process's mmap_lock is held, so nothing of the process can be read.
    Locked,
    /// Pagetide's memory for ages is limited, and the process's pages do not fit.
    NoRoom,
    /// We may not read the process; contains the kernel's error.
    Denied(io::Error),
}

/// What a scan must do with a process.
pub(super) enum Step {
    /// Do nothing: the outcome is known already.
    Is(ScanOutcome),
    /// Only record that the process was idle.
    Idle,
    /// Walk the process.
    Read(Box<Job>),
}
