//! A folder that becomes an archive.
//!
//! Invariant: files have exactly the requested modes, whatever the umask is, and the modification
//! times of their sources.

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Path below the package's root, without a leading slash.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    /// Makes a file that every user may read.
    pub(super) fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry {
            path: path.into(),
            mode: 0o644,
            bytes: bytes.into(),
        }
    }

    /// Makes a file that every user may run.
    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry {
            mode: 0o755,
            ..Entry::new(path, bytes)
        }
    }
}

/// A temporary folder that is removed when this value is dropped.
pub(super) struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// Makes an empty folder in `parent`. First removes the folder of a killed process that had the
    /// same pid.
    pub(super) fn new(parent: &Path) -> Result<Stage, String> {
        let folder = parent.join(format!(".stage-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| reported(&folder, &error))?;
        Ok(Stage { folder })
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes files into the folder.
    pub(super) fn put(&self, entries: &[Entry]) -> Result<(), String> {
        for entry in entries {
            let path = self.folder.join(&entry.path);
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, &entry.bytes))
                .and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(entry.mode)));
            written.map_err(|error| reported(&path, &error))?;
        }
        Ok(())
    }

    /// Sets all folders to the usual mode of system folders, and all times to the sources' time.
    pub(super) fn seal(&self, epoch: u64) -> Result<(), String> {
        seal(&self.folder, UNIX_EPOCH + Duration::from_secs(epoch))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Sets times from the bottom up, because making a file changes the time of its folder.
fn seal(path: &Path, time: SystemTime) -> Result<(), String> {
    let failed = |error: std::io::Error| reported(path, &error);
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(failed)? {
            seal(&entry.map_err(failed)?.path(), time)?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(failed)?;
    }
    let file = File::open(path).map_err(failed)?;
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    file.set_times(times).map_err(failed)
}

fn reported(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn modes_and_times_are_those_requested() {
        let parent = std::env::temp_dir().join(format!("xtask-stage-{}", std::process::id()));
        let stage = Stage::new(&parent).unwrap();
        let entries = [Entry::new("a/b/c", "text"), Entry::program("a/run", "#!")];
        stage.put(&entries).unwrap();
        stage.seal(1_000_000).unwrap();
        for (path, mode) in [
            ("", 0o755),
            ("a/b", 0o755),
            ("a/b/c", 0o644),
            ("a/run", 0o755),
        ] {
            let meta = stage.path().join(path).metadata().unwrap();
            assert_eq!(
                (meta.mode() & 0o7777, meta.mtime()),
                (mode, 1_000_000),
                "{path}"
            );
        }
        drop(stage);
        // The folder is empty again, so it can be removed.
        std::fs::remove_dir(&parent).unwrap();
    }
}
