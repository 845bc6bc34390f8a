//! A memory control group (v1) of a test's own.
//!
//! It is gone after its test, and so is whoever is still in it: nobody but the test put anyone there.
//! So it must be declared before what runs in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Run, send};
use crate::temp::fresh;
use crate::wait;

/// Where the hierarchy that counts memory is mounted.
const ROOT: &str = "/sys/fs/cgroup/memory";

/// A group, removed in `Drop`.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// An empty one.
    ///
    /// # Panics
    /// If it cannot be made: these tests need root and a v1 hierarchy.
    #[must_use]
    pub fn new() -> MemoryGroup {
        MemoryGroup::in_folder(Path::new(ROOT))
    }

    /// An empty one below another, which must outlive it.
    #[must_use]
    pub fn below(&self) -> MemoryGroup {
        MemoryGroup::in_folder(&self.path)
    }

    fn in_folder(folder: &Path) -> MemoryGroup {
        let path = fresh(folder);
        let path = path
            .unwrap_or_else(|error| panic!("no control group in {}: {error}", folder.display()));
        MemoryGroup { path }
    }

    /// Its path in the file system.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Its path below the mount of the hierarchy.
    #[must_use]
    pub fn name(&self) -> String {
        let below = self.path.strip_prefix(ROOT).unwrap_or(&self.path);
        below.to_string_lossy().into_owned()
    }

    /// A number that it tells.
    ///
    /// # Panics
    /// If it tells none of this name.
    #[must_use]
    pub fn number(&self, file: &str) -> u64 {
        let path = self.path.join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let number = text.trim().parse();
        number.unwrap_or_else(|_| panic!("{}: {text:?}", path.display()))
    }

    /// A line of a file of several, like `memory.stat`; 0 if there is none of this name.
    #[must_use]
    pub fn line(&self, file: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    /// Who is in it.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Limits its memory to so many bytes; what is over goes to swap.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn limit(&self, bytes: u64) {
        std::fs::write(
            self.path.join("memory.limit_in_bytes"),
            format!("{bytes}\n"),
        )
        .expect("the group can be limited");
    }

    /// The command, in this group from its first instruction on.
    #[must_use]
    pub fn run(&self, command: &Run) -> Run {
        let procs = self
            .path
            .join("cgroup.procs")
            .to_string_lossy()
            .into_owned();
        let enter = r#"echo $$ > "$0" && exec "$@""#;
        command.under(["sh", "-c", enter, &procs].map(str::to_owned))
    }
}

impl Default for MemoryGroup {
    fn default() -> MemoryGroup {
        MemoryGroup::new()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Killed processes leave when their memory is free.
        let gone = wait::poll(Duration::from_secs(10), || {
            let inside = std::fs::read_to_string(self.path.join("cgroup.procs"));
            for pid in inside.unwrap_or_default().lines() {
                send(pid.parse().unwrap_or_default(), Signal::KILL);
            }
            std::fs::remove_dir(&self.path).ok()
        });
        if gone.is_none() {
            eprintln!("cannot remove {}", self.path.display());
        }
    }
}
