//! A swap file for one test. It is slower than memory: a swapped-out page stays charged until it is
//! written to the file and its memory is needed.
//!
//! The file is removed after the test, as [`crate::zram::Swap`] is.

use std::process::Command;

use crate::temp::TempDir;

/// An active swap file, removed in `Drop`.
#[derive(Debug)]
pub struct SwapFile {
    path: String,
    /// The folder of the swap file, removed after the swap is switched off.
    _folder: TempDir,
}

impl SwapFile {
    /// Makes a swap file of `mib` MiB and switches it on, with the highest priority.
    ///
    /// # Panics
    /// If that fails: these tests need root and a disk.
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
