//! A temporary folder for one boot. It is removed with its owner; the folder of a killed process is
//! removed when the next one is made.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const BEGIN: &str = "run-";

/// A temporary folder that is removed when this value is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder in `parent`, and removes folders of processes that have ended.
    pub(super) fn new(parent: &Path) -> Result<Scratch, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            if is_orphan(&entry.file_name().to_string_lossy()) {
                // Another process may remove it at the same time.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{BEGIN}{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns whether this is the name of a temporary folder whose process has ended.
fn is_orphan(name: &str) -> bool {
    let id = name
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.split_once('-'))
        .and_then(|(id, _)| id.parse::<u32>().ok());
    id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_or_after_it() {
        let parent = std::env::temp_dir().join(format!("xtask-scratch-{}", std::process::id()));
        let orphan = parent.join("run-4294967295-0");
        std::fs::create_dir_all(orphan.join("x")).unwrap();
        let scratch = Scratch::new(&parent).unwrap();
        let other = Scratch::new(&parent).unwrap();
        assert!(!orphan.exists());
        assert!(scratch.path() != other.path() && scratch.path().is_dir());
        drop((scratch, other));
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
        std::fs::remove_dir(&parent).unwrap();
    }

    #[test]
    fn other_folders_are_not_orphans() {
        assert!(!is_orphan("packages"));
        assert!(!is_orphan("run-x-0"));
        assert!(!is_orphan(&format!("run-{}-0", std::process::id())));
    }
}
