//! A program with known memory contents. It is idle until a signal makes it check all of them.

use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Run, Running};
use crate::memcg::MemoryGroup;
use crate::{proc, programs, wait};

/// Time limit for filling or for checking the memory; a gigabyte takes much less.
const LIMIT: Duration = Duration::from_secs(120);

/// The running program, which ends when this is dropped.
#[derive(Debug)]
pub struct IdleProgram(Running);

impl IdleProgram {
    /// Starts the program with `mib` MiB, as arguments of the command `wrap`, and waits until it
    /// has filled them. `wrap` must execute the program in its own process.
    ///
    /// # Panics
    /// If it has not filled its memory in time.
    #[must_use]
    pub fn start(wrap: impl IntoIterator<Item = String>, mib: u64) -> IdleProgram {
        let own = [programs::c("sleeper"), mib.to_string()];
        IdleProgram::filled(&Run::new(wrap.into_iter().chain(own)))
    }

    /// Starts the program with `mib` MiB in a control group, and waits until it has filled them.
    /// With `workers` it is a pre-fork server, and each worker writes a part of the memory anew.
    ///
    /// # Panics
    /// If it has not filled its memory in time.
    #[must_use]
    pub fn start_in(group: &MemoryGroup, mib: u64, workers: Option<u64>) -> IdleProgram {
        let own = [programs::c("sleeper"), mib.to_string()];
        let workers = workers.map(|workers| workers.to_string());
        IdleProgram::filled(&group.run(&Run::new(own.into_iter().chain(workers))))
    }

    /// Starts the program and waits until it has filled its memory.
    fn filled(run: &Run) -> IdleProgram {
        let running = run.start();
        wait::until("it is filled", LIMIT, || running.stdout().contains("ready"));
        IdleProgram(running)
    }

    /// Pid of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Size in the line `name` of the program's /proc/PID/status, bytes; 0 if there is none.
    #[must_use]
    pub fn status(&self, name: &str) -> u64 {
        proc::number(self.pid(), name).unwrap_or(0)
    }

    /// Makes the program check every page; returns the seconds that this took. The program ends if
    /// a page is wrong.
    ///
    /// # Panics
    /// If it does not answer in time or has ended.
    #[must_use]
    pub fn touch(&self) -> f64 {
        let lines = || self.0.stdout().lines().count();
        let before = lines();
        self.0.signal(Signal::USR1);
        let done = wait::poll(LIMIT, || {
            let is_reported = lines() > before && self.0.stdout().ends_with('\n');
            // Stops waiting if the program was killed; that is reported below.
            (is_reported || !proc::is_alive(self.pid())).then_some(is_reported)
        });
        let (all, errors) = (self.0.stdout(), self.0.stderr());
        assert!(
            done == Some(true),
            "it did not touch its memory, or has ended (dmesg tells a kill): {all}{errors}"
        );
        let text = self.0.stdout();
        let last = text.lines().last().unwrap_or_default();
        last.parse().expect("it says how long it took")
    }
}
