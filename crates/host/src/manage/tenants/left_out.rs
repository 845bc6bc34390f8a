//! Processes and control groups that scans do not include ("left out"), each with the reason.
//!
//! Invariant: each is logged once, when it is first left out. Reports and metrics name the first
//! [`NAMED_MAX`] of them and count the rest, so that their length is limited.

use std::collections::BTreeMap;

/// Maximum number of processes and groups that are named at a time; the others are counted.
pub const NAMED_MAX: usize = 100;
/// Maximum number of processes and groups that the notes of a report name, because people read
/// them.
const NOTED_MAX: usize = 10;

/// Reason: another manager manages the process.
pub(super) const MANAGED: &str = "a separate pagetide manages it";
/// Reason: the group carries the ownership xattr of root, or of the user that runs `serve`.
pub(super) const MARKED: &str = "another pagetide made this control group";

/// Processes and groups that are left out: name (`pid 12`, `control group /a/b`), then the reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeftOut(BTreeMap<String, &'static str>);

impl LeftOut {
    /// Makes the set from names and reasons.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = (String, &'static str)>) -> LeftOut {
        LeftOut(all.into_iter().collect())
    }

    /// Adds a process or a group `what`, left out for the reason `why`.
    pub(super) fn add(&mut self, what: String, why: &'static str) {
        self.0.insert(what, why);
    }

    /// Returns the number of processes and groups that are left out.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the first [`NAMED_MAX`] processes and groups: name, then reason.
    pub fn named(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let all = self.0.iter().map(|(what, why)| (what.as_str(), *why));
        all.take(NAMED_MAX)
    }

    /// Returns notes for a report: one line for each of the first [`NOTED_MAX`], and one line with
    /// the number of the others.
    pub(super) fn notes(&self) -> Vec<String> {
        let lines = self.0.iter().map(|(what, why)| line(what, why));
        with_rest(lines, NOTED_MAX)
    }

    /// Replaces all entries by those of the newest listing, `found`. Returns log lines for entries
    /// that are new.
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

/// Returns the first `most` lines, and one line that says how many more there are.
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

    /// Regression: processes that scans did not include were neither logged nor reported.
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
