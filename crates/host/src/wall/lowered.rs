//! What a group's limit and swappiness were, while the kernel is made to reclaim from it on version 1.
//!
//! Invariant: the note stands on the group from before the first of them is changed until both are as they were. Who is killed in between has
//! left it there, and whoever takes the group up puts them back: the limit only if it is lower than it was.

use std::os::fd::OwnedFd;

use super::attribute;
use super::files;
use super::limits::{V1_MAX, V1_SWAPPINESS};
use crate::system::text::number;

/// The limit in bytes (`-1` for none), and the swappiness.
const NOTE: &str = "lowered";

/// Before they are changed. Where the kernel keeps no notes on groups, nobody can be told.
pub(super) fn note(dir: &OwnedFd, limit: Option<u64>, swappiness: u8) {
    let limit = limit.map_or("-1".to_owned(), |limit| limit.to_string());
    let text = format!("{limit} {swappiness}");
    let _ = attribute::set(dir, NOTE, text.as_bytes());
}

/// Both are as they were.
pub(super) fn forget(dir: &OwnedFd) {
    let _ = attribute::remove(dir, NOTE);
}

/// Puts back what a killed one has left, if it has.
pub(super) fn undo(dir: &OwnedFd) {
    let Some(text) = attribute::get(dir, NOTE) else {
        return;
    };
    if let Some((limit, swappiness)) = parse(&text) {
        let now = files::read(dir, V1_MAX).unwrap_or_default();
        let is_lower = |now: u64| limit.is_none_or(|limit| now < limit);
        if number(now.trim_ascii()).is_some_and(is_lower) {
            let limit = limit.map_or("-1".to_owned(), |limit| limit.to_string());
            let _ = files::write(dir, V1_MAX, &limit);
        }
        let _ = files::write(dir, V1_SWAPPINESS, &swappiness.to_string());
    }
    forget(dir);
}

fn parse(text: &[u8]) -> Option<(Option<u64>, u64)> {
    let mut words = text.split(|byte| *byte == b' ');
    let (limit, swappiness) = (words.next()?, words.next()?);
    let limit = match limit {
        b"-1" => None,
        limit => Some(number(limit)?),
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
    fn a_note_is_read_again() {
        assert_eq!(parse(b"-1 60"), Some((None, 60)));
        assert_eq!(parse(b"8192 0"), Some((Some(8192), 0)));
        for text in ["", "-1", "x 60", "-1 ", "-2 60"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
