//! A note on a version 1 cgroup: the limit and swappiness that it had before we lowered them to
//! make the kernel reclaim from it.
//!
//! Invariant: the note is written before the limit or the swappiness is changed, and stays until
//! both are restored. If the manager is killed in between, the next manager of the cgroup restores
//! both. It restores the limit only if the limit is now lower than in the note.

use std::os::fd::OwnedFd;

use engine::{Bytes, Limit};

use super::attribute;
use super::files;
use super::limits::{V1_MAX, V1_SWAPPINESS, limit_text_v1};
use crate::system::text::number;

/// Name of the note. Its text is the limit in bytes (`-1` for none), then the swappiness.
const NOTE: &str = "lowered";

/// Writes the note. Callers do so before they change limit or swappiness. If the kernel stores no
/// attributes on cgroups, nothing is written.
pub(super) fn note(dir: &OwnedFd, limit: Limit, swappiness: u8) {
    let text = format!("{} {swappiness}", limit_text_v1(limit));
    let _ = attribute::set(dir, NOTE, text.as_bytes());
}

/// Removes the note. Callers do so after they have restored limit and swappiness.
pub(super) fn forget(dir: &OwnedFd) {
    let _ = attribute::remove(dir, NOTE);
}

/// If there is a note, restores the limit and the swappiness that a killed manager has changed.
pub(super) fn undo(dir: &OwnedFd) {
    let Some(text) = attribute::get(dir, NOTE) else {
        return;
    };
    if let Some((limit, swappiness)) = parse(&text) {
        let now = files::read(dir, V1_MAX).unwrap_or_default();
        let is_lower = |now: u64| Limit::Bytes(Bytes(now)) < limit;
        if number(now.trim_ascii()).is_some_and(is_lower) {
            let _ = files::write(dir, V1_MAX, &limit_text_v1(limit));
        }
        let _ = files::write(dir, V1_SWAPPINESS, &swappiness.to_string());
    }
    forget(dir);
}

/// Parses the text of a note: the limit, then the swappiness.
fn parse(text: &[u8]) -> Option<(Limit, u64)> {
    let mut words = text.split(|byte| *byte == b' ');
    let (limit, swappiness) = (words.next()?, words.next()?);
    let limit = match limit {
        b"-1" => Limit::Max,
        limit => Limit::Bytes(Bytes(number(limit)?)),
    };
    Some((limit, number(swappiness)?))
}

#[cfg(test)]
pub(super) fn is_noted(dir: &OwnedFd) -> bool {
    attribute::get(dir, NOTE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_parsed_as_written() {
        assert_eq!(parse(b"-1 60"), Some((Limit::Max, 60)));
        assert_eq!(parse(b"8192 0"), Some((Limit::Bytes(Bytes(8192)), 0)));
        for text in ["", "-1", "x 60", "-1 ", "-2 60"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
