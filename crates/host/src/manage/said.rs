//! What was said of what was done for limits and commands, for reports: who runs beside a program is heard by nobody else.
//!
//! Invariant: of each kind of line the latest is kept, with how many there were, and no more than [`KINDS`] kinds: thousands of pages
//! that left for a limit do not push out that the kernel refused one.

use std::collections::VecDeque;

/// Kinds of lines that are kept; of more, those that were said last.
const KINDS: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SaidLines(VecDeque<Kind>);

/// Lines that differ in numbers alone.
#[derive(Debug)]
struct Kind {
    latest: String,
    count: u64,
}

impl SaidLines {
    /// A line was said.
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

    /// What was said last is last.
    pub(super) fn report(&self) -> Vec<String> {
        let lines = self.0.iter().map(|kind| match kind.count {
            1 => kind.latest.clone(),
            count => format!("{} (the latest of {count})", kind.latest),
        });
        lines.collect()
    }
}

/// The line without its digits.
fn words(line: &str) -> impl Iterator<Item = char> {
    line.chars().filter(|one| !one.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: a dry run under a limit decided five times a second, and its report said nothing at all.
    #[test]
    fn what_is_said_often_is_told_once_and_pushes_nothing_out() {
        let mut told = SaidLines::default();
        told.note("the kernel refused to page out: EPERM");
        for pages in 1..=1000 {
            told.note(&format!("would page out {pages} pages"));
        }
        let refused = "the kernel refused to page out: EPERM".to_owned();
        let would = "would page out 1000 pages (the latest of 1000)".to_owned();
        assert_eq!(told.report(), [refused, would]);
    }

    #[test]
    fn no_more_kinds_are_kept_than_a_reader_reads() {
        let mut told = SaidLines::default();
        for kind in 0..100 {
            told.note(&"x".repeat(kind));
        }
        let lines = told.report();
        assert_eq!(lines.len(), KINDS);
        assert_eq!(lines.last().map(String::len), Some(99));
    }
}
