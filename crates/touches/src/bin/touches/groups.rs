//! The control groups (version 2) of a workload.
//!
//! Invariant: dropping a [`Groups`] removes its groups, as far as their processes have ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use touches::case::{Case, NO_LIMIT, PAGE_SIZE};

/// Where control groups version 2 are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Writes `text` to a file of the kernel (cgroupfs, procfs, sysfs, tracefs).
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text)
        .map_err(|error| format!("cannot write `{text}` to {}: {error}", path.display()))
}

/// Reads a file of the kernel (cgroupfs, procfs, sysfs, tracefs).
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Moves this process to `group`. Memory that it already has stays charged to its old group.
pub(crate) fn enter(group: &Path) -> Result<(), String> {
    write(&group.join("cgroup.procs"), "0")
}

/// The control groups of a case.
pub(crate) struct Groups {
    /// Paths of the groups, in the order of [`Case::groups`].
    paths: Vec<PathBuf>,
}

impl Groups {
    /// Creates the groups of a case and sets their limits.
    pub(crate) fn make(case: &Case) -> Result<Groups, String> {
        write(&Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
        let mut groups = Groups { paths: Vec::new() };
        for (at, group) in case.groups.iter().enumerate() {
            let path = Path::new(ROOT).join(case.path(at));
            fs::create_dir(&path)
                .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
            groups.paths.push(path.clone());
            if group.max != NO_LIMIT {
                let bytes = u64::from(group.max) * PAGE_SIZE;
                write(&path.join("memory.max"), &bytes.to_string())?;
            }
            if group.low > 0 {
                let bytes = u64::from(group.low) * PAGE_SIZE;
                write(&path.join("memory.low"), &bytes.to_string())?;
            }
            if case.is_inner(at) {
                write(&path.join("cgroup.subtree_control"), "+memory")?;
            }
        }
        Ok(groups)
    }

    /// Returns the path of the group with this index in [`Case::groups`].
    pub(crate) fn path(&self, group: usize) -> &Path {
        &self.paths[group]
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in self.paths.iter().rev() {
            // A process that has just ended may still be in its group for a moment.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
    }
}
