//! A workload's control groups, version 2.
//!
//! Invariant: a tree is removed when it is dropped, as far as its processes are gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use touches::case::{Case, NO_LIMIT};

const ROOT: &str = "/sys/fs/cgroup";
const PAGE: u64 = 4096;

/// Writes to a file of the kernel's.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text)
        .map_err(|error| format!("cannot write `{text}` to {}: {error}", path.display()))
}

/// Reads a file of the kernel's.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// This process goes to `group`; its memory so far stays where it was charged.
pub(crate) fn enter(group: &Path) -> Result<(), String> {
    write(&group.join("cgroup.procs"), "0")
}

/// The groups of a case.
pub(crate) struct Groups {
    /// In the case's order.
    paths: Vec<PathBuf>,
}

impl Groups {
    /// Makes the groups with their limits.
    pub(crate) fn make(case: &Case) -> Result<Groups, String> {
        write(&Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
        let mut groups = Groups { paths: Vec::new() };
        for (at, group) in case.groups.iter().enumerate() {
            let path = Path::new(ROOT).join(case.path(at));
            fs::create_dir(&path)
                .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
            groups.paths.push(path.clone());
            if group.max != NO_LIMIT {
                let bytes = u64::from(group.max) * PAGE;
                write(&path.join("memory.max"), &bytes.to_string())?;
            }
            if group.low > 0 {
                let bytes = u64::from(group.low) * PAGE;
                write(&path.join("memory.low"), &bytes.to_string())?;
            }
            if case.is_inner(at) {
                write(&path.join("cgroup.subtree_control"), "+memory")?;
            }
        }
        Ok(groups)
    }

    /// Where a group is.
    pub(crate) fn path(&self, group: usize) -> &Path {
        &self.paths[group]
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in self.paths.iter().rev() {
            // A process that has just ended may still be in it for a moment.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
    }
}
