//! The numbers that stand for tenants' names, so that rows need not repeat the names.
//!
//! Invariant: a name keeps its number as long as any row has the number; no name is longer than
//! [`NAME_MAX`] bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::fnv1a;

/// Longest name in bytes. A longer name is cut and ends with a hash of the whole name, so that
/// names stay distinct.
const NAME_MAX: usize = 200;
/// Bytes that a name takes in addition to its text.
const NAME_COST: usize = 64;

/// The names with their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Names {
    numbers: BTreeMap<String, u32>,
    names: BTreeMap<u32, String>,
    bytes: usize,
}

/// Returns the name, cut to [`NAME_MAX`] bytes.
pub(in super::super) fn cut(name: &str) -> String {
    if name.len() <= NAME_MAX {
        return name.to_owned();
    }
    let end = (0..=NAME_MAX - 20)
        .rev()
        .find(|end| name.is_char_boundary(*end));
    let start = &name[..end.unwrap_or(0)];
    format!("{start}\u{2026}{:016x}", fnv1a(name.as_bytes()))
}

impl Names {
    /// Returns the number of a name, a new one if the name has none.
    pub(super) fn number_of(&mut self, name: &str) -> u32 {
        let name = cut(name);
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        // The lowest number that no name has.
        let mut number = self
            .names
            .last_key_value()
            .map_or(0, |(last, _)| last.wrapping_add(1));
        while self.names.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        self.insert(number, name);
        number
    }

    /// Adds a name with its number from a file. Returns false if one of them is in use, or the name
    /// too long.
    pub(super) fn insert(&mut self, number: u32, name: String) -> bool {
        if self.names.contains_key(&number)
            || self.numbers.contains_key(&name)
            || name.len() > NAME_MAX
        {
            return false;
        }
        self.bytes += name.len() * 2 + NAME_COST;
        self.numbers.insert(name.clone(), number);
        self.names.insert(number, name);
        true
    }

    /// Returns the name that has this number.
    pub(super) fn get(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    /// Returns the number of this name; `None` if it has none.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(&cut(name)).copied()
    }

    /// All names with their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &str)> {
        self.names
            .iter()
            .map(|(number, name)| (*number, name.as_str()))
    }

    /// Drops all names except those with these numbers.
    pub(super) fn retain(&mut self, numbers: &BTreeSet<u32>) {
        let gone: Vec<u32> = self
            .names
            .keys()
            .copied()
            .filter(|number| !numbers.contains(number))
            .collect();
        for name in gone.iter().filter_map(|number| self.names.remove(number)) {
            self.bytes -= name.len() * 2 + NAME_COST;
            self.numbers.remove(&name);
        }
    }

    /// Bytes that the names take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_distinct() {
        let mut names = Names::default();
        let long = |end: &str| format!("/{}{end}", "\u{e4}".repeat(300));
        let (one, other) = (names.number_of(&long("a")), names.number_of(&long("b")));
        assert_ne!(one, other);
        assert_eq!(names.number_of(&long("a")), one);
        assert_eq!(names.find(&long("a")), Some(one), "by its whole name");
        assert!(names.all().all(|(_, name)| name.len() <= NAME_MAX));
        names.retain(&BTreeSet::from([other]));
        assert_eq!((names.get(one), names.all().count()), (None, 1));
        names.retain(&BTreeSet::new());
        assert_eq!(names.bytes(), 0);
        assert!(names.insert(7, "/x".to_owned()) && !names.insert(7, "/y".to_owned()));
        assert!(!names.insert(8, "/x".to_owned()));
        assert_eq!(names.number_of("/z"), 8);
    }
}
