//! `sleeper`: a program of known contents that does nothing until it is told to check all of it.

use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Run, Running};
use crate::memcg::MemoryGroup;
use crate::{proc, programs, wait};

/// It fills, or checks, a gigabyte in much less.
const LIMIT: Duration = Duration::from_secs(120);

/// A sleeper that runs.
#[derive(Debug)]
pub struct Sleeper(Running);

impl Sleeper {
    /// One of so many MiB, filled; `wrap` are the words before its own, of a command that becomes it.
    ///
    /// # Panics
    /// If it is not filled in time.
    #[must_use]
    pub fn start(wrap: impl IntoIterator<Item = String>, mib: u64) -> Sleeper {
        let own = [programs::c("sleeper"), mib.to_string()];
        Sleeper::filled(&Run::new(wrap.into_iter().chain(own)))
    }

    /// In a control group: with workers a pre-fork server, each with a part of its own.
    ///
    /// # Panics
    /// As [`Sleeper::start`].
    #[must_use]
    pub fn start_in(group: &MemoryGroup, mib: u64, workers: Option<u64>) -> Sleeper {
        let own = [programs::c("sleeper"), mib.to_string()];
        let workers = workers.map(|workers| workers.to_string());
        Sleeper::filled(&group.run(&Run::new(own.into_iter().chain(workers))))
    }

    fn filled(run: &Run) -> Sleeper {
        let running = run.start();
        wait::until("it is filled", LIMIT, || running.stdout().contains("ready"));
        Sleeper(running)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// What the kernel says of it under this name in /proc/PID/status, bytes; 0 of nothing.
    #[must_use]
    pub fn status(&self, name: &str) -> u64 {
        proc::number(self.pid(), name).unwrap_or(0)
    }

    /// Has it check every page; the seconds that it says. A page that is wrong ends it.
    ///
    /// # Panics
    /// If it does not say so in time: a page was wrong.
    #[must_use]
    pub fn touch(&self) -> f64 {
        let lines = || self.0.stdout().lines().count();
        let before = lines();
        self.0.signal(Signal::USR1);
        let done = wait::poll(LIMIT, || {
            let is_told = lines() > before && self.0.stdout().ends_with('\n');
            // One that was killed is told as such, and not waited for.
            (is_told || !proc::is_alive(self.pid())).then_some(is_told)
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
