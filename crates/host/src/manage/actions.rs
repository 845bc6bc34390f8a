//! The latest actions of a policy, each with its reason, for reports.
//!
//! Invariant: at most the latest [`MOST`] actions are kept; an action on zero pages is not
//! recorded.

use std::collections::VecDeque;

use engine::Millis;
use engine::policy::Why;

use crate::report::ActionReport;

/// Maximum number of actions in a report.
const MOST: usize = 32;

/// The latest actions of one policy, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Actions(VecDeque<ActionReport>);

impl Actions {
    /// Records that a policy paged out, wrote back or dropped `pages` pages, for the reason `why`.
    /// If `is_dry`, the policy would have done so, but was in a dry run.
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

    /// Returns the actions, the oldest first.
    pub(super) fn report(&self) -> Vec<ActionReport> {
        self.0.iter().cloned().collect()
    }
}
