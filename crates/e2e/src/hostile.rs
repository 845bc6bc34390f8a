//! The hostile workload (`tests/programs/hostile`) and its counters (`struct shared` in
//! `hostile.h`).

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::guard::{Run, Running};
use crate::temp::TempDir;
use crate::{proc, programs, wait};

/// Time without progress after which the workload counts as hanging.
const STALL: Duration = Duration::from_secs(25);
/// Age from which a forked child counts as hanging. A child normally lives for a second or two.
const OLD: Duration = Duration::from_secs(40);
/// Processes that begin within this time of the start do not count as forked children.
const FORKED_AFTER: Duration = Duration::from_secs(5);

/// The command of a hostile workload, and the folder of its files, which is removed in `Drop`.
#[derive(Debug)]
pub struct Hostile {
    folder: TempDir,
    run: Run,
}

impl Hostile {
    /// A workload that runs for `seconds` seconds, with random numbers from `seed` and further
    /// options `more`.
    #[must_use]
    pub fn new(seconds: u64, seed: u64, more: &[&str]) -> Hostile {
        let folder = TempDir::new();
        let dir = folder.path().to_string_lossy().into_owned();
        let mut argv = vec![programs::hostile()];
        argv.extend(["--seconds".to_owned(), seconds.to_string()]);
        argv.extend([
            "--seed".to_owned(),
            seed.to_string(),
            "--dir".to_owned(),
            dir,
        ]);
        argv.extend(["--progress".to_owned(), folder.file("progress")]);
        argv.extend(more.iter().map(|word| (*word).to_owned()));
        Hostile {
            folder,
            run: Run::new(argv),
        }
    }

    /// The command that runs the workload.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Waits until the workload under `manager` is at work; returns the pid of its first process.
    ///
    /// # Panics
    /// If it is not at work within a minute.
    #[must_use]
    pub fn target(&self, manager: &Running) -> u32 {
        let soon = Duration::from_secs(60);
        wait::until("the workload under pagetide", soon, || self.ops() > 50);
        let parent = manager.pid().to_string();
        let is = |pid: &u32| proc::status(*pid, "PPid").is_some_and(|found| found == parent);
        let found = manager.named("hostile").into_iter().find(is);
        found.unwrap_or_else(|| panic!("no target\n{}", manager.state()))
    }

    /// Waits until the workload has ended, at most for `limit`; returns `None`. If it hangs before
    /// that, returns the state of all its processes, which cannot be found out later: the workload
    /// ends itself after 60 s without progress.
    #[must_use]
    pub fn watch(&self, running: &Running, limit: Duration) -> Option<String> {
        let begin = Instant::now();
        let mut progress = (self.ops(), begin);
        let mut born: BTreeMap<u32, Instant> = BTreeMap::new();
        while begin.elapsed() < limit && proc::is_alive(running.pid()) {
            std::thread::sleep(Duration::from_millis(200));
            if progress.0 != self.ops() {
                progress = (self.ops(), Instant::now());
            }
            let live = running.named("hostile");
            born.retain(|pid, _| live.contains(pid));
            for pid in live {
                born.entry(pid).or_insert_with(Instant::now);
            }
            let forked = |at: &&Instant| at.duration_since(begin) > FORKED_AFTER;
            let old = born.values().filter(forked).any(|at| at.elapsed() > OLD);
            if old || progress.1.elapsed() > STALL {
                let what = if old { "a forked child" } else { "everything" };
                return Some(format!("{what} is stuck\n{}", running.state()));
            }
        }
        None
    }

    /// The file in which the workload counts its operations.
    fn progress_file(&self) -> PathBuf {
        self.folder.path().join("progress")
    }

    /// Number of operations done so far by all processes of the workload; 0 before it runs.
    #[must_use]
    pub fn ops(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = std::fs::File::open(self.progress_file())
            .and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.map_or(0, |()| u64::from_ne_bytes(bytes))
    }
}
