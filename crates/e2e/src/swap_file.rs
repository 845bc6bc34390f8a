//! A swap file of a test's own, which is slower than memory: what leaves to it is charged until it is written and somebody needs the memory.
//!
//! It is gone after its test, as [`crate::zram::Swap`] is.

use std::process::Command;

use crate::temp::TempDir;

/// An active swap file, removed in `Drop`.
#[derive(Debug)]
pub struct SwapFile {
    path: String,
    /// Removed behind it.
    _folder: TempDir,
}

impl SwapFile {
    /// One of so many MiB.
    ///
    /// # Panics
    /// If there cannot be one: these tests need root and a disk.
    #[must_use]
    pub fn new(mib: u64) -> SwapFile {
        let folder = TempDir::new();
        let file = SwapFile {
            path: folder.file("swap"),
            _folder: folder,
        };
        let size = format!("{mib}M");
        for command in [
            &["fallocate", "-l", &size][..],
            &["chmod", "600"],
            &["mkswap"],
            &["swapon", "-p", "32767"],
        ] {
            let done = Command::new(command[0])
                .args(&command[1..])
                .arg(&file.path)
                .output();
            let done = done.unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let why = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{command:?}: {why}");
        }
        file
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.path).output();
    }
}
