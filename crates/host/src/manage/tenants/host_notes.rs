//! Report settings of those of the host's groups that pagetide may not change. They are stored on
//! the tree's root.
//!
//! Invariant: when a note (the settings of one group) is added, the notes of groups that are gone
//! are dropped. For each group, the text has a line with a slash and the group's name, then the
//! lines of its settings. No line of settings begins with a slash.

use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of bytes in one part, which is an extended attribute. The kernel keeps at most
/// 128 KiB of `user.*` attributes for a group. While a value is replaced, the old and the new value
/// both count, so parts are small. (XATTR_SIZE_MAX is 64 KiB.)
const PART_MAX: usize = 4 << 10;

/// Report settings by tenant path (`host/system.slice`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct HostNotes(BTreeMap<String, String>);

impl HostNotes {
    /// Parses the text of all parts of [`HostNotes::parts`] together; drops lines that cannot be
    /// read.
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

    /// Returns the text in parts; the settings of one group are never divided. The settings of some
    /// hundred groups are more than the kernel accepts in one attribute.
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

    /// Sets the settings of a tenant, or removes them if the text is empty. Drops those of groups
    /// that are gone, for which `is_there` returns false. A name with a line break has no settings:
    /// the kernel allows none in names.
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

    /// Returns the report settings of the group at a path; `None` if there are none.
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

    /// Regression: an agent read reports of services that it may not change. After each upgrade of
    /// serve, their reports were off.
    #[test]
    fn notes_are_parsed_again_except_those_of_removed_groups() {
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
        // Regression: on a node with a hundred pods one attribute was full, and the other settings
        // were silently lost.
        let long = |number: u32| format!("host/{}-{number}", "kubepods".repeat(24));
        (0..1000).for_each(|number| notes.note(Path::new(&long(number)), "refresh N0=1", |_| true));
        assert!(notes.parts().len() > 3 && notes.parts().iter().all(|part| part.len() < 65_536));
        let again = HostNotes::parse(&notes.parts().concat());
        assert_eq!(again.of(Path::new(&long(999))), Some("refresh N0=1\n"));
        // Regression: all `user.*` attributes together have 68 KiB. With parts of 60 KiB the old
        // and the new first part did not fit at once, so the part could not be replaced.
        notes.note(Path::new(&long(0)), "refresh N0=2", |path| {
            (0..500).any(|number| path == Path::new(&long(number)))
        });
        let sizes: Vec<usize> = notes.parts().iter().map(String::len).collect();
        let largest = sizes.iter().max().copied().unwrap_or(0);
        assert!(sizes.len() < 128 && sizes.iter().sum::<usize>() + largest < 128 << 10);
        assert_eq!(HostNotes::parse("refresh N0=1\n/a\n"), HostNotes::default());
    }
}
