//! The hostile workload and its counters (`tests/programs/hostile/hostile.h`, `struct shared`).

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::guard::Run;
use crate::programs;
use crate::temp::TempDir;

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
