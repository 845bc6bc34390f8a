//! Writeback of pages from zram to its backing disk, as data.
//!
//! Invariant: `written_pages` is the device's own count (`bd_stat`). All other counts are of pages
//! that we requested to be written back.

use serde::{Deserialize, Serialize};

use super::ActionReport;

/// Writeback that pagetide requested, and its results.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteBackReport {
    /// Name of the zram device.
    pub device: String,
    /// Whether writeback is only decided, and no page is written.
    pub dry_run: bool,
    /// Idle time from which swapped-out pages are written back, milliseconds. `None` for a tree of
    /// tenants, as each tenant may have its own.
    pub older_than_ms: Option<u64>,
    /// Most bytes that may be written within `budget_period_ms`.
    pub budget_bytes: u64,
    /// Length of the budget's period, milliseconds.
    pub budget_period_ms: u64,
    /// Pages that pagetide requested to be written back.
    pub asked_pages: u64,
    /// Pages that the device wrote during our requests, by its own count.
    pub written_pages: u64,
    /// Pages that had no slot in this device's swap: swapped in again, or in another swap area.
    pub elsewhere_pages: u64,
    /// Pages with a swap slot that changed during the request: the program had swapped them in.
    pub moved_pages: u64,
    /// The latest writeback actions, each with its reason.
    pub actions: Vec<ActionReport>,
}
