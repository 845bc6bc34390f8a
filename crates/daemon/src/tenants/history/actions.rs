//! The latest actions of the manager, as many as fit.
//!
//! Invariant: they take no more than [`BYTES_MAX`] bytes; the oldest are dropped.

use std::collections::VecDeque;

use super::super::snapshot::Action;

/// Most bytes that all actions together may take.
const BYTES_MAX: usize = 1 << 20;
/// Longest text of one action in bytes.
const TEXT_MAX: usize = 1_000;
/// Bytes that an action takes in addition to its text.
const COST: usize = 32;

/// The latest actions, and the bytes that they take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Actions {
    all: VecDeque<Action>,
    bytes: usize,
}

impl Actions {
    /// Adds actions, in order.
    pub(super) fn extend<'a>(&mut self, actions: impl IntoIterator<Item = &'a Action>) {
        for action in actions {
            let end = (0..=action.text.len().min(TEXT_MAX))
                .rev()
                .find(|end| action.text.is_char_boundary(*end));
            let action = Action {
                at_ms: action.at_ms,
                text: action.text[..end.unwrap_or(0)].to_owned(),
            };
            self.bytes += action.text.len() + COST;
            self.all.push_back(action);
        }
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.all.pop_front()
        {
            self.bytes -= oldest.text.len() + COST;
        }
    }

    /// All actions, the newest last.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.all.iter()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
