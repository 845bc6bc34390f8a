//! Writeback of pages from zram to its backing disk, as data.
//!
//! Invariant: `written_pages` is the device's own count (`bd_stat` of zram). All other counts are
//! of pages for which we requested writeback.

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
    /// Minimum idle time of swapped-out pages that are written back, milliseconds. `None` for a
    /// tree of tenants, as each tenant may have its own.
    pub older_than_ms: Option<u64>,
    /// Most bytes that may be written within `budget_period_ms`.
    pub budget_bytes: u64,
    /// Length of the budget's period, milliseconds.
    pub budget_period_ms: u64,
    /// Pages that pagetide requested to be written back.
    pub asked_pages: u64,
    /// Pages that the device wrote during our requests, by its own count.
    pub written_pages: u64,
    /// Pages that were not in this device's swap: they were swapped in again, or are in another
    /// swap area.
    pub elsewhere_pages: u64,
    /// Pages whose swap slot changed during the request: the program had swapped them in.
    pub moved_pages: u64,
    /// The latest writeback actions, each with its reason.
    pub actions: Vec<ActionReport>,
}
