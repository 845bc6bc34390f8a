//! Messages about what was done for limits and commands, for logs and for reports. A manager that
//! runs beside a program (`run`) does not print them.
//!
//! Invariant: a log has at most the latest [`LINES`] lines. For reports, messages that differ only
//! in numbers are of one kind. The latest message of each kind is kept, with the number of
//! messages, for at most [`KINDS`] kinds. So thousands of messages about paged-out pages do not
//! push out one about a refusal of the kernel.

use std::collections::VecDeque;

/// Maximum number of lines kept if no caller takes them; the oldest are dropped.
const LINES: usize = 1000;
/// Maximum number of kinds; beyond it, the kind with the oldest message is forgotten.
const KINDS: usize = 32;

/// Log lines about what was done, and why, since they were last taken.
#[derive(Debug, Default)]
pub(super) struct ActionLines(VecDeque<String>);

impl ActionLines {
    /// Adds a line.
    pub(super) fn add(&mut self, line: String) {
        if self.0.len() == LINES {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    /// Returns the lines, the oldest first, and forgets them.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0).into()
    }
}

/// The latest message of each kind, ordered by time, the latest last.
#[derive(Debug, Default)]
pub(super) struct Messages(VecDeque<Kind>);

/// Messages that differ only in numbers.
#[derive(Debug)]
struct Kind {
    /// The latest message.
    latest: String,
    /// Number of messages until now.
    count: u64,
}

impl Messages {
    /// Adds a message, and replaces the message of the same kind.
    pub(super) fn note(&mut self, line: &str) {
        let is_like = |kind: &Kind| words(&kind.latest).eq(words(line));
        let at = self.0.iter().position(is_like);
        let before = at.and_then(|at| self.0.remove(at));
        if self.0.len() == KINDS {
            self.0.pop_front();
        }
        self.0.push_back(Kind {
            latest: line.to_owned(),
            count: before.map_or(1, |kind| kind.count + 1),
        });
    }

    /// Returns the latest message of each kind, with the kind's count if it is above 1. The latest
    /// is last.
    pub(super) fn report(&self) -> Vec<String> {
        let lines = self.0.iter().map(|kind| match kind.count {
            1 => kind.latest.clone(),
            count => format!("{} (the latest of {count})", kind.latest),
        });
        lines.collect()
    }
}

/// Returns the message without its digits, which decides its kind.
fn words(line: &str) -> impl Iterator<Item = char> {
    line.chars().filter(|one| !one.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a dry run under a limit made the same decision, with a message, five times a
    /// second; its report contained no message.
    #[test]
    fn a_frequent_message_is_kept_once_and_pushes_no_other_out() {
        let mut reported = Messages::default();
        reported.note("the kernel refused to page out: EPERM");
        for pages in 1..=1000 {
            reported.note(&format!("would page out {pages} pages"));
        }
        let refused = "the kernel refused to page out: EPERM".to_owned();
        let would = "would page out 1000 pages (the latest of 1000)".to_owned();
        assert_eq!(reported.report(), [refused, would]);
    }

    #[test]
    fn the_latest_lines_are_kept_until_they_are_taken() {
        let mut lines = ActionLines::default();
        (0..LINES + 5).for_each(|line| lines.add(line.to_string()));
        let taken = lines.take();
        assert_eq!((taken.len(), taken[0].as_str()), (LINES, "5"));
        assert!(lines.take().is_empty());
    }

    #[test]
    fn at_most_32_kinds_of_messages_are_kept() {
        let mut reported = Messages::default();
        for kind in 0..100 {
            reported.note(&"x".repeat(kind));
        }
        let lines = reported.report();
        assert_eq!(lines.len(), KINDS);
        assert_eq!(lines.last().map(String::len), Some(99));
    }
}
