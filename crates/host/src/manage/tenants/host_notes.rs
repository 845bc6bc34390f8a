//! What was asked of reports of the host's groups that may not be changed: it is kept on the tree's root.
//!
//! Invariant: a group that is gone has no note from the next one on. The text is, of each group, a line with its name behind a
//! slash, and the lines of whoever makes reports, none of which begins with one.

use std::collections::BTreeMap;
use std::path::Path;

/// Of the users' kind the kernel keeps 128 KiB of a group, the old text of an attribute and the new one together while one takes the
/// other's place: so that is to be little. (XATTR_SIZE_MAX is 64 KiB.)
const PART_MAX: usize = 4 << 10;

/// Notes by the tenants' names (`host/system.slice`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct HostNotes(BTreeMap<String, String>);

impl HostNotes {
    /// What [`HostNotes::parts`] told, one behind the other; what cannot be read is left out.
    pub(super) fn parse(text: &str) -> HostNotes {
        let mut notes = HostNotes::default();
        let mut of = None;
        for line in text.lines() {
            match (line.strip_prefix('/'), &of) {
                (Some(name), _) => of = Some(name.to_owned()),
                (None, Some(name)) => {
                    let note = notes.0.entry(name.clone()).or_default();
                    note.push_str(line);
                    note.push('\n');
                }
                (None, None) => {}
            }
        }
        notes
    }

    /// All of it, in parts of whole groups: some hundreds of a cluster's are more than the kernel takes at a time.
    pub(super) fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for (name, note) in &self.0 {
            let text = format!("/{name}\n{}\n", note.trim_end());
            match parts.last_mut() {
                Some(part) if part.len() + text.len() <= PART_MAX => part.push_str(&text),
                _ => parts.push(text),
            }
        }
        parts
    }

    /// Notes this of a tenant, nothing if the text is empty, and forgets those who are gone. A name with a line break has no note: the kernel's
    /// have none.
    pub(super) fn note(&mut self, path: &Path, text: &str, is_there: impl Fn(&Path) -> bool) {
        self.0.retain(|name, _| is_there(Path::new(name)));
        let Some(name) = path.to_str().filter(|name| !name.contains('\n')) else {
            return;
        };
        if text.is_empty() {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), text.to_owned());
        }
    }

    pub(super) fn of(&self, path: &Path) -> Option<&str> {
        Some(self.0.get(path.to_str()?)?.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: an agent reads services, which it may not change; after each upgrade of serve their reports were off.
    #[test]
    fn notes_come_back_and_those_of_who_is_gone_do_not() {
        let mut notes = HostNotes::default();
        let (service, slice) = (Path::new("host/a.service"), Path::new("host/b.slice"));
        notes.note(service, "refresh N0=500\nthreshold N0=0\n", |_| true);
        notes.note(slice, "refresh N0=1", |_| true);
        let again = HostNotes::parse(&notes.parts().concat());
        assert_eq!(again.of(service), Some("refresh N0=500\nthreshold N0=0\n"));
        assert_eq!(again.of(slice), Some("refresh N0=1\n"));
        assert_eq!(again.of(Path::new("host")), None);
        notes.note(slice, "", |path| path != service);
        assert!(notes.is_empty() && notes.parts().is_empty());
        // Of a node with a hundred pods one attribute was full, and the rest was forgotten without a word.
        let long = |number: u32| format!("host/{}-{number}", "kubepods".repeat(24));
        (0..1000).for_each(|number| notes.note(Path::new(&long(number)), "refresh N0=1", |_| true));
        assert!(notes.parts().len() > 3 && notes.parts().iter().all(|part| part.len() < 65_536));
        let again = HostNotes::parse(&notes.parts().concat());
        assert_eq!(again.of(Path::new(&long(999))), Some("refresh N0=1\n"));
        // With parts of 60 KiB the users' kind was full at 68 KiB: the first could not take its own place.
        notes.note(Path::new(&long(0)), "refresh N0=2", |path| {
            (0..500).any(|number| path == Path::new(&long(number)))
        });
        let sizes: Vec<usize> = notes.parts().iter().map(String::len).collect();
        let largest = sizes.iter().max().copied().unwrap_or(0);
        assert!(sizes.len() < 128 && sizes.iter().sum::<usize>() + largest < 128 << 10);
        assert_eq!(HostNotes::parse("refresh N0=1\n/a\n"), HostNotes::default());
    }
}
