//! A memory control group (version 1) that a test makes for its processes.
//!
//! After the test the group is removed, and all processes in it are killed: only the test put
//! processes there. So declare the group before its processes, as Rust drops the last declared
//! value first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Run, send};
use crate::temp::make_unique;
use crate::wait;

/// Mount point of the version 1 hierarchy that counts memory.
const ROOT: &str = "/sys/fs/cgroup/memory";

/// A memory control group; `Drop` kills its processes and removes it.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes an empty group directly below the mount point.
    ///
    /// # Panics
    /// If it cannot be made: these tests need root and a version 1 hierarchy.
    #[must_use]
    pub fn new() -> MemoryGroup {
        MemoryGroup::in_folder(Path::new(ROOT))
    }

    /// Makes an empty group below this one, which must outlive the new group.
    #[must_use]
    pub fn below(&self) -> MemoryGroup {
        MemoryGroup::in_folder(&self.path)
    }

    /// Makes an empty group `name` below this one, which must outlive the new group.
    ///
    /// # Panics
    /// If it cannot be made, or a group of this name exists.
    #[must_use]
    pub fn below_named(&self, name: &str) -> MemoryGroup {
        let path = self.path.join(name);
        let made = std::fs::create_dir(&path);
        made.unwrap_or_else(|error| panic!("no control group {}: {error}", path.display()));
        MemoryGroup { path }
    }

    /// Makes an empty group with a new name below `folder`.
    fn in_folder(folder: &Path) -> MemoryGroup {
        let path = make_unique(folder);
        let path = path
            .unwrap_or_else(|error| panic!("no control group in {}: {error}", folder.display()));
        MemoryGroup { path }
    }

    /// Absolute path of the group's directory.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Path of the group relative to the mount point of the hierarchy.
    #[must_use]
    pub fn name(&self) -> String {
        let below = self.path.strip_prefix(ROOT).unwrap_or(&self.path);
        below.to_string_lossy().into_owned()
    }

    /// Reads a number from a file of the group.
    ///
    /// # Panics
    /// If there is no such number.
    #[must_use]
    pub fn number(&self, file: &str) -> u64 {
        let path = self.path.join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let number = text.trim().parse();
        number.unwrap_or_else(|_| panic!("{}: {text:?}", path.display()))
    }

    /// Number in the line of `file` that begins with `name` (such as `memory.stat`); 0 if there is
    /// no such line.
    #[must_use]
    pub fn line(&self, file: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    /// Pids of the processes in the group.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Limits the memory of the group to `bytes`; the kernel reclaims what is above that.
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

    /// Returns the command that enters this group and then runs `command`.
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
        // A killed process leaves the group when its memory is free.
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
