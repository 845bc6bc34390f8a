//! Pages that went on from compressed memory to the disk behind it, as data.
//!
//! Invariant: `written_pages` is the device's own count (`bd_stat`); all others are of the pages that were asked for.

use serde::{Deserialize, Serialize};

use super::ActionReport;

/// What was asked for and what came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteBackReport {
    /// The zram that is written back from.
    pub device: String,
    /// It decides, and nothing is written.
    pub dry_run: bool,
    /// What is out and was not accessed for so long goes on, milliseconds; none for a tree, where tenants differ.
    pub older_than_ms: Option<u64>,
    /// Most bytes that are written in a period of `budget_period_ms`.
    pub budget_bytes: u64,
    /// How long such a period is, milliseconds.
    pub budget_period_ms: u64,
    /// Pages that were asked for.
    pub asked_pages: u64,
    /// Pages that were written while they were asked for, by the device's count.
    pub written_pages: u64,
    /// Pages that have no place in this device's swap any more, or never had: back in memory, or in other swap.
    pub elsewhere_pages: u64,
    /// Pages whose place was another a moment after they were asked for: they came back right then.
    pub moved_pages: u64,
    /// The latest of what was done, each with its reason.
    pub actions: Vec<ActionReport>,
}
