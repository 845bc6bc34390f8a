//! Writeback of swapped-out pages from compressed memory (zram) to the disk behind the zram: from
//! which age, how much, from which device.
//!
//! Invariant: plain values; whether there is such a disk is checked when a manager starts
//! ([`crate::preflight`]).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The settings of writeback.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WriteBack {
    /// Pages that were not accessed for this time are written back.
    pub older_than: Duration,
    /// Most bytes written in a day, because writes wear flash out.
    pub most_a_day: u64,
    /// The zram device; `None` for the device that `swap on` made.
    pub from: Option<PathBuf>,
}
