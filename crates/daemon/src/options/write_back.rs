//! What is out is to go on from compressed memory to the disk behind it: how old, how much, from where.
//!
//! Invariant: plain values; whether there is such a disk is found out by whoever begins ([`crate::preflight`]).

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WriteBack {
    /// What was not accessed for so long.
    pub older_than: Duration,
    /// At most so many bytes a day: flash wears out by what is written.
    pub most_a_day: u64,
    /// From this zram; none for the one that `swap on` made.
    pub from: Option<PathBuf>,
}
