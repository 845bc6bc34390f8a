//! Which processes and control groups scans leave out, and why.
//!
//! Invariant: each is logged once, when it begins to be left out. Reports and metrics name the first
//! [`NAMED_MAX`] of them and count the rest, so that no number of them makes either long.

use std::collections::BTreeMap;

/// Most that are named at a time.
pub const NAMED_MAX: usize = 100;
/// Most that a report names: its notes are for people.
const NOTED_MAX: usize = 10;

/// Why: another manager has the process.
pub(super) const MANAGED: &str = "a pagetide of its own manages it";
/// Why: the group carries the ownership xattr of root, or of the user that serves.
pub(super) const MARKED: &str = "another pagetide made this control group";

/// What is left out: `pid 12` or `control group /a/b`, each with the reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeftOut(BTreeMap<String, &'static str>);

impl LeftOut {
    /// These, each with the reason.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = (String, &'static str)>) -> LeftOut {
        LeftOut(all.into_iter().collect())
    }

    /// Adds one.
    pub(super) fn add(&mut self, what: String, why: &'static str) {
        self.0.insert(what, why);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The first of them, at most [`NAMED_MAX`], with the reason of each.
    pub fn named(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let all = self.0.iter().map(|(what, why)| (what.as_str(), *why));
        all.take(NAMED_MAX)
    }

    /// For a report: a line each, and one for the rest.
    pub(super) fn notes(&self) -> Vec<String> {
        let lines = self.0.iter().map(|(what, why)| line(what, why));
        with_rest(lines, NOTED_MAX)
    }

    /// Takes what the newest listing found; what is new among it, for the log.
    #[must_use]
    pub(super) fn replace(&mut self, found: LeftOut) -> Vec<String> {
        let is_new = |(what, _): &(&String, &&str)| !self.0.contains_key(*what);
        let new = found.0.iter().filter(is_new);
        let lines = with_rest(new.map(|(what, why)| line(what, why)), NAMED_MAX);
        self.0 = found.0;
        lines
    }
}

fn line(what: &str, why: &str) -> String {
    format!("{what} is left out: {why}")
}

/// The first `most` lines, and how many more there are.
fn with_rest(lines: impl Iterator<Item = String>, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    if let Some(rest) = lines.len().checked_sub(most).filter(|rest| *rest > 0) {
        lines.truncate(most);
        lines.push(format!("{rest} more are left out"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pids: std::ops::Range<u32>) -> LeftOut {
        LeftOut::of(pids.map(|pid| (format!("pid {pid}"), MANAGED)))
    }

    /// Regression: what was left out of scans was said nowhere.
    #[test]
    fn each_is_logged_once() {
        let mut known = LeftOut::default();
        let line = |pid: u32| format!("pid {pid} is left out: {MANAGED}");
        assert_eq!(known.replace(of(1..3)), [line(1), line(2)]);
        assert_eq!(known.replace(of(1..4)), [line(3)]);
        assert_eq!(known.notes(), [line(1), line(2), line(3)]);
        assert!(known.replace(of(3..4)).is_empty());
        assert_eq!(known.replace(of(1..2)), [line(1)], "it comes again");
    }

    #[test]
    fn many_are_counted() {
        let mut known = LeftOut::default();
        let lines = known.replace(of(0..1000));
        assert_eq!(lines.len(), NAMED_MAX + 1);
        assert_eq!(
            lines.last().map(String::as_str),
            Some("900 more are left out")
        );
        assert_eq!(known.notes().len(), NOTED_MAX + 1);
        assert_eq!((known.count(), known.named().count()), (1000, NAMED_MAX));
    }
}
