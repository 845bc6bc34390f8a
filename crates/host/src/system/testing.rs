//! Helpers for tests: directories and control groups that are removed at the end, with the
//! processes in them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::cgroup::Groups;
use super::proc::Proc;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns a name that no other test uses, in this process or another.
fn unique(name: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("pagetide-test-{}-{number}-{name}", std::process::id())
}

/// A directory that is removed at the end, with all its content.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// Makes the directory.
    pub(crate) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(unique(name));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A control group of the memory controller below the mount, removed at the end with the groups
/// below it. Processes that are still in it are killed: the test started them.
pub(crate) struct OwnGroup {
    pub(crate) dir: PathBuf,
}

impl OwnGroup {
    /// Makes the control group.
    pub(crate) fn new(name: &str) -> OwnGroup {
        let proc = Proc::system().expect("/proc");
        let groups = Groups::find(&proc).expect("a memory controller");
        let dir = groups.mount.join(unique(name));
        std::fs::create_dir(&dir).expect("a control group");
        OwnGroup { dir }
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Removes a control group and those below it, and kills the processes in them.
fn remove(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    // A process that was just killed may still be listed for a moment.
    for _ in 0..200 {
        if std::fs::remove_dir(dir).is_ok() || !dir.exists() {
            return;
        }
        let pids = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
