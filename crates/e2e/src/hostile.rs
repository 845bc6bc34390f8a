//! The hostile workload and its counters (`tests/programs/hostile/hostile.h`, `struct shared`).

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::guard::{Run, Running};
use crate::temp::TempDir;
use crate::{proc, programs, wait};

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
