//! Directories that are removed when dropped, and the lock that lets one test run at a time.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

/// Cargo's target directory. The test binary is in it as `debug/deps/NAME`, a benchmark as
/// `release/NAME`.
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
    /// Makes a directory in cargo's target directory that did not exist before.
    ///
    /// # Panics
    /// If the directory cannot be made.
    #[must_use]
    pub fn new() -> TempDir {
        TempDir::create(&target_dir().join("e2e"))
    }

    /// Makes a directory in the system's temporary directory that other users can enter. Cargo's
    /// target directory may be below a home directory that they cannot enter.
    ///
    /// # Panics
    /// If the directory cannot be made.
    #[must_use]
    pub fn public() -> TempDir {
        let folder = TempDir::create(&std::env::temp_dir());
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder.0, mode).expect("the owner sets the mode");
        folder
    }

    /// Registers `path`, where a program may make a directory, for removal in `Drop`. Makes
    /// nothing.
    #[must_use]
    pub fn at(path: &str) -> TempDir {
        TempDir(path.into())
    }

    /// Makes a new directory in `parent`, which is made if it is missing.
    fn create(parent: &Path) -> TempDir {
        std::fs::create_dir_all(parent).expect("a directory can be made");
        TempDir(make_unique(parent).expect("a directory can be made"))
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of a file in the directory, as text for a command line. The file need not exist.
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
        // A directory that cannot be removed stays in the target directory, where it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a directory in `parent` that did not exist before; returns its path.
///
/// Process ids are used again and a killed test does not remove its directories, so a process id in
/// the name does not make it unique. Regression: a new test took such a directory's files for its
/// own.
pub(crate) fn make_unique(parent: &Path) -> std::io::Result<PathBuf> {
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

/// The lock that allows a test to run; released when this is dropped.
#[derive(Debug)]
pub struct Serial(#[expect(dead_code, reason = "the open file is the lock")] File);

/// Waits until no other test of the same lane runs, in any test binary; returns the lane's lock.
/// The lane is named by `PAGETIDE_LANE`: a check of the workspace runs several lanes at the same
/// time.
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
