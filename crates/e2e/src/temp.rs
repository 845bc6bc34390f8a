//! Directories that are gone when their owner is, and the lock that lets one test run at a time.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

/// Where cargo builds: the test binary is `TARGET/debug/deps/NAME`, a bench `TARGET/release/NAME`.
///
/// # Panics
/// If the running program is not in a cargo target directory.
#[must_use]
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a process knows its program");
    let tagged = exe
        .ancestors()
        .find(|path| path.join("CACHEDIR.TAG").exists());
    tagged
        .expect("the tests run from cargo's target directory")
        .to_path_buf()
}

/// A fresh directory on disk, removed in `Drop`.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A directory in cargo's target directory that did not exist before.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new() -> TempDir {
        TempDir::create(&target_dir().join("e2e"))
    }

    /// One that other users can enter: the target directory may lie under a private home.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn public() -> TempDir {
        let folder = TempDir::create(&std::env::temp_dir());
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder.0, mode).expect("the owner sets the mode");
        folder
    }

    /// One that a program may make there.
    #[must_use]
    pub fn at(path: &str) -> TempDir {
        TempDir(path.into())
    }

    fn create(parent: &Path) -> TempDir {
        std::fs::create_dir_all(parent).expect("a directory can be made");
        TempDir(fresh(parent).expect("a directory can be made"))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it, as text for a command line.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Default for TempDir {
    fn default() -> TempDir {
        TempDir::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What is left behind is in the target directory, where it harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a directory in another that did not exist before, which a process id alone does not promise: those are used again,
/// and a test that was killed leaves its directories, with files that were taken for those of a new test.
pub(crate) fn fresh(parent: &Path) -> std::io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("pagetide-e2e-{}-{number}", std::process::id()));
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
}

/// Held by a test for as long as it runs.
#[derive(Debug)]
pub struct Serial(#[expect(dead_code, reason = "the open file is the lock")] File);

/// Waits until no other test of any test binary of its lane runs (`PAGETIDE_LANE`; there are several in a check of the house).
///
/// # Panics
/// If the lock file cannot be made.
#[must_use]
pub fn serial() -> Serial {
    let lane = std::env::var("PAGETIDE_LANE").unwrap_or_else(|_| "first".to_owned());
    let folder = target_dir().join("e2e");
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    let file = File::create(folder.join(format!("{lane}.lock")));
    let file = file.expect("the lock file can be made");
    flock(&file, FlockOperation::LockExclusive).expect("a lock can be waited for");
    Serial(file)
}
