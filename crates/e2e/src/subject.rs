//! Test programs with known memory contents. A function that starts one returns when it is ready.
//!
//! The program `ages` ends when its standard input ends, so it gets one that stays open for as long
//! as it must run.

use std::time::Duration;

use crate::ages::{Printed, Table};
use crate::guard::{Run, Running};
use crate::memcg::MemoryGroup;
use crate::temp::TempDir;
use crate::{programs, wait};

/// Time limit for a program to print that it is ready.
const SOON: Duration = Duration::from_secs(120);

/// A running test program.
#[derive(Debug)]
pub struct Subject {
    /// The program and all processes that it started.
    pub running: Running,
    /// Pid of the program.
    pub pid: u32,
}

impl Subject {
    /// Starts the test program `name` and waits until it prints `ready pid=...`.
    ///
    /// # Panics
    /// If it does not print that within two minutes.
    #[must_use]
    pub fn start(name: &str, words: &[&str]) -> Subject {
        Subject::ready(command(name, words).start())
    }

    /// Like [`Subject::start`], in a control group.
    #[must_use]
    pub fn start_in(group: &MemoryGroup, name: &str, words: &[&str]) -> Subject {
        Subject::ready(group.run(&command(name, words)).start())
    }

    /// Waits until a started program prints `ready pid=...`.
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

/// The command of the test program `name`.
fn command(name: &str, words: &[&str]) -> Run {
    Run::new(std::iter::once(programs::c(name).as_str()).chain(words.iter().copied()))
}

/// A running `ages`, a program that touches pages of several kinds of memory at known times.
#[derive(Debug)]
pub struct AgesSubject {
    /// The running program.
    pub subject: Subject,
    /// What the program printed before it was ready.
    pub printed: Printed,
    _folder: TempDir,
}

impl AgesSubject {
    /// Starts `ages` for `seconds` seconds, with `mib` MiB of each of these kinds of memory.
    ///
    /// # Panics
    /// If it does not start, or its output contradicts itself.
    #[must_use]
    pub fn start(mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        AgesSubject::under(|run| run, mib, seconds, kinds)
    }

    /// Like [`AgesSubject::start`], as arguments of the command `prefix`, which must execute `ages`
    /// in its own process.
    #[must_use]
    pub fn start_under(prefix: Vec<String>, mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        AgesSubject::under(|run| run.under(prefix.clone()), mib, seconds, kinds)
    }

    /// Like [`AgesSubject::start`], in a control group.
    #[must_use]
    pub fn start_in(group: &MemoryGroup, mib: u64, seconds: u64, kinds: &[&str]) -> AgesSubject {
        AgesSubject::under(|run| group.run(&run), mib, seconds, kinds)
    }

    /// Starts `ages` by the command that `wrap` makes.
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

    /// Reads from the table of `ages` when each class of pages was touched, up to now.
    ///
    /// # Panics
    /// If the table cannot be read.
    #[must_use]
    pub fn table(&self) -> Table {
        // The program may begin a pass while the table is read: then it is read again.
        let read = || Table::parse(&std::fs::read(&self.printed.table).ok()?).ok();
        let table = wait::poll(Duration::from_secs(5), read);
        table.expect("ages keeps its table")
    }
}

impl Drop for AgesSubject {
    fn drop(&mut self) {
        // A killed program cannot remove its table.
        let _ = std::fs::remove_file(&self.printed.table);
    }
}
