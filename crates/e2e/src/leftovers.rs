//! Finds what a test has not removed from the host, by whatever name: control groups, files in
//! /run, mounts, swap.
//!
//! Invariant: other programs make and remove such things, too. So a thing is reported only if it
//! stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::wait;

/// Time limit for things of other programs to disappear.
const SOON: Duration = Duration::from_secs(30);

/// Names of all control groups, files in /run, mounts and swap areas at one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing(BTreeSet<String>);

impl Listing {
    /// Lists the host's present state.
    #[must_use]
    pub fn now() -> Listing {
        let mut found = BTreeSet::new();
        add_below(Path::new("/sys/fs/cgroup"), false, &mut found);
        add_below(Path::new("/run"), true, &mut found);
        // The socket of a manager that was killed stays until the next manager starts, which
        // removes it.
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
        // Mounts by their mount point, swap by its device.
        found.extend(lines("/proc/self/mountinfo", 4));
        found.extend(lines("/proc/swaps", 0));
        Listing(found)
    }

    /// Returns what exists now and is not in this listing. Before that, waits up to `SOON` for such
    /// things to disappear.
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

/// Adds the paths of all folders below `folder`, and of all files if `with_files`.
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
