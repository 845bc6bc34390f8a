//! Programs whose memory is known, started and ready.
//!
//! `ages` ends when its standard input does, so it gets one that stays open for as long as it is to run.

use std::time::Duration;

use crate::ages::{Printed, Table};
use crate::guard::{Run, Running};
use crate::memcg::MemoryGroup;
use crate::temp::TempDir;
use crate::{programs, wait};

/// Until a program says that it is ready.
const SOON: Duration = Duration::from_secs(120);

/// A program that runs.
#[derive(Debug)]
pub struct Subject {
    /// All that was started for it.
    pub running: Running,
    /// Its own process.
    pub pid: u32,
}

impl Subject {
    /// Starts one of the test programs and waits until it says `ready pid=...`.
    ///
    /// # Panics
    /// If it does not within two minutes.
    #[must_use]
    pub fn start(name: &str, words: &[&str]) -> Subject {
        Subject::ready(command(name, words).start())
    }

    /// The same in a control group.
    #[must_use]
    pub fn start_in(group: &MemoryGroup, name: &str, words: &[&str]) -> Subject {
        Subject::ready(group.run(&command(name, words)).start())
    }

    pub(crate) fn ready(mut running: Running) -> Subject {
        let found = wait::poll(SOON, || {
            let ended = running.ended();
            assert!(ended.is_none(), "it ended early: {}", running.state());
            let text = running.stdout() + &running.stderr();
            let line = text.lines().find(|line| line.starts_with("ready pid="))?;
            let pid = line["ready pid=".len()..].split(' ').next()?;
            pid.parse().ok()
        });
        let pid = found.unwrap_or_else(|| panic!("not ready: {}", running.state()));
        Subject { running, pid }
    }
}

fn command(name: &str, words: &[&str]) -> Run {
    Run::new(std::iter::once(programs::c(name).as_str()).chain(words.iter().copied()))
}

/// `ages` with some kinds of memory.
#[derive(Debug)]
pub struct AgesSubject {
    /// The program.
    pub subject: Subject,
    /// What it said.
    pub printed: Printed,
    _folder: TempDir,
}

impl AgesSubject {
    /// Starts it with so many MiB of each kind.
    ///
    /// # Panics
    /// If it does not start, or says what cannot be true.
    #[must_use]
    pub fn start(mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        AgesSubject::under(|run| run, mib, seconds, kinds)
    }

    /// The same, as the argument of these words: a command that becomes it.
    #[must_use]
    pub fn start_under(prefix: Vec<String>, mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        AgesSubject::under(|run| run.under(prefix.clone()), mib, seconds, kinds)
    }

    /// The same in a control group.
    #[must_use]
    pub fn start_in(group: &MemoryGroup, mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        AgesSubject::under(|run| group.run(&run), mib, seconds, kinds)
    }

    fn under(wrap: impl Fn(Run) -> Run, mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        let folder = TempDir::new();
        let script = format!(
            "cd {} && sleep {} | {} {mib} {seconds} {}",
            folder.path().display(),
            seconds + 60,
            programs::c("ages"),
            kinds.join(" ")
        );
        let run = wrap(Run::new(["sh", "-c", &script]));
        let subject = Subject::ready(run.start());
        let printed = Printed::parse(&subject.running.stdout());
        AgesSubject {
            subject,
            printed: printed.expect("ages says what it has"),
            _folder: folder,
        }
    }

    /// When each class was touched, as of now.
    ///
    /// # Panics
    /// If the table cannot be read.
    #[must_use]
    pub fn table(&self) -> Table {
        // A pass may begin while it is read.
        let read = || Table::parse(&std::fs::read(&self.printed.table).ok()?).ok();
        let table = wait::poll(Duration::from_secs(5), read);
        table.expect("ages keeps its table")
    }
}

impl Drop for AgesSubject {
    fn drop(&mut self) {
        // Killed, it cannot remove its table.
        let _ = std::fs::remove_file(&self.printed.table);
    }
}
