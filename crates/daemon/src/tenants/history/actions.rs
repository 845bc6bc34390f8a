//! What was done, as far back as it fits.
//!
//! Invariant: no more than [`BYTES_MAX`] bytes; the newest stay.

use std::collections::VecDeque;

use super::super::snapshot::Action;

/// Bytes of all of them.
const BYTES_MAX: usize = 1 << 20;
/// Bytes of one.
const TEXT_MAX: usize = 1_000;
/// What one costs beside its text.
const COST: usize = 32;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Actions {
    all: VecDeque<Action>,
    bytes: usize,
}

impl Actions {
    /// More of them, in order.
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

    /// The newest last.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.all.iter()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
