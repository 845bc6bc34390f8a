//! What a host has that somebody could leave behind: control groups, files in /run, mounts, swap. Whatever its name is.
//!
//! Invariant: what others make and remove meanwhile is waited for; what stays is told.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::wait;

/// Others' programs of a moment are gone by then.
const SOON: Duration = Duration::from_secs(30);

/// A listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing(BTreeSet<String>);

impl Listing {
    /// As it is now.
    #[must_use]
    pub fn now() -> Listing {
        let mut found = BTreeSet::new();
        add_below(Path::new("/sys/fs/cgroup"), false, &mut found);
        add_below(Path::new("/run"), true, &mut found);
        // The socket of a manager that was killed stays until the next manager starts, which removes it.
        found.retain(|path| !path.starts_with("/run/pagetide/control/"));
        for ours in ["/run/pagetide", "/run/pagetide/control"] {
            found.remove(ours);
        }
        let lines = |file: &str, column: usize| -> Vec<String> {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let words = text
                .lines()
                .filter_map(|line| line.split_whitespace().nth(column));
            words.map(|word| format!("{file}: {word}")).collect()
        };
        // Mounts by where they are, swap by its device.
        found.extend(lines("/proc/self/mountinfo", 4));
        found.extend(lines("/proc/swaps", 0));
        Listing(found)
    }

    /// What is there and was not then, once nothing more goes.
    #[must_use]
    pub fn new_since(&self) -> Vec<String> {
        let new = || -> Vec<String> {
            let now = Listing::now().0;
            now.difference(&self.0).cloned().collect()
        };
        let _ = wait::poll(SOON, || new().is_empty().then_some(()));
        new()
    }
}

fn add_below(folder: &Path, with_files: bool, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder || with_files {
            found.insert(entry.path().to_string_lossy().into_owned());
        }
        if is_folder {
            add_below(&entry.path(), with_files, found);
        }
    }
}
