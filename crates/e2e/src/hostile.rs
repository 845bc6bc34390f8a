//! The hostile workload and its counters (`tests/programs/hostile/hostile.h`, `struct shared`).

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::guard::{Run, Running};
use crate::temp::TempDir;
use crate::{proc, programs, wait};

/// So long without progress is a hang.
const STALL: Duration = Duration::from_secs(25);
/// A forked child lives for a second or two; one that lives for so long is stuck.
const OLD: Duration = Duration::from_secs(40);
/// The processes that are there from the start are no forked children in this sense.
const FORKED_AFTER: Duration = Duration::from_secs(5);

/// A hostile workload to be run; its files vanish with it.
#[derive(Debug)]
pub struct Hostile {
    folder: TempDir,
    run: Run,
}

impl Hostile {
    /// One that runs for so many seconds.
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

    /// The command.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The managed process, once it works.
    ///
    /// # Panics
    /// If it does not within a minute.
    #[must_use]
    pub fn target(&self, manager: &Running) -> u32 {
        let soon = Duration::from_secs(60);
        wait::until("the workload under pagetide", soon, || self.ops() > 50);
        let parent = manager.pid().to_string();
        let is = |pid: &u32| proc::status(*pid, "PPid").is_some_and(|found| found == parent);
        let found = manager.named("hostile").into_iter().find(is);
        found.unwrap_or_else(|| panic!("no target\n{}", manager.state()))
    }

    /// Waits until it has ended, or `limit`. What everything waits for, should it hang: afterwards
    /// nobody can tell. It ends itself after 60 s without progress.
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

    fn progress_file(&self) -> PathBuf {
        self.folder.path().join("progress")
    }

    /// Operations done so far by all its processes; 0 before it runs.
    #[must_use]
    pub fn ops(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = std::fs::File::open(self.progress_file())
            .and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.map_or(0, |()| u64::from_ne_bytes(bytes))
    }
}
