//! What was done of late, each with its reason: for reports.
//!
//! Invariant: no more than the latest [`MOST`] are kept, and none of no pages.

use std::collections::VecDeque;

use engine::Millis;
use engine::policy::Why;

use crate::report::ActionReport;

/// Actions that a report tells.
const MOST: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Actions(VecDeque<ActionReport>);

impl Actions {
    /// So many pages went somewhere, or would have in a dry run.
    pub(super) fn note(&mut self, now: Millis, pages: u64, is_dry: bool, why: &Why) {
        if pages == 0 {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(ActionReport {
            at_ms: now.0,
            pages,
            is_dry,
            why: why.to_string(),
        });
    }

    /// The oldest first.
    pub(super) fn report(&self) -> Vec<ActionReport> {
        self.0.iter().cloned().collect()
    }
}
