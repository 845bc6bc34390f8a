//! Running processes that do not outlive their test.
//!
//! Each process is started with a unique mark in its environment. All processes that it starts
//! inherit the mark; so do pagetide's managers, which are not its children. `Drop` finds processes
//! by the mark and kills each by its pid.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::temp::TempDir;
use crate::{autopsy, proc, wait};

/// The environment variable that holds the mark.
const MARK: &str = "PAGETIDE_E2E";

/// A command that can be started, also several times: each start gets a mark of its own.
#[derive(Clone, Debug)]
pub struct Run {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    stdin: Option<String>,
}

/// How a process ended and what it printed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status.
    pub status: ExitStatus,
    /// What the process printed to its standard output.
    pub stdout: String,
    /// What the process printed to its standard error.
    pub stderr: String,
    /// Time from the start of the process to its end.
    pub took: Duration,
}

/// Time limit for a manager to end. Much less is needed to write its report and to remove its
/// hard-limit cgroup.
const MANAGERS_END: Duration = Duration::from_secs(10);

/// A running process. When this is dropped, the process is killed with all processes that it
/// started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// The command line, for messages.
    name: String,
    /// `NAME=value` of the mark in the environment.
    mark: String,
    /// The folder that holds the files `stdout` and `stderr`.
    output: TempDir,
    begin: Instant,
    /// Whether the process has ended and was waited for.
    done: bool,
}

/// Starts `sleep 100`, and waits until the process has become `sleep`.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn sleep() -> Running {
    let running = Run::new(["sleep", "100"]).start();
    wait::until("sleep", Duration::from_secs(60), || {
        proc::comm(running.pid()).as_deref() == Some("sleep")
    });
    running
}

impl Run {
    /// A command from the words of its command line.
    #[must_use]
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Run {
        Run {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            stdin: None,
        }
    }

    /// The words of the command line.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// The command `prefix... argv...`, with the same environment and standard input.
    #[must_use]
    pub fn under(&self, prefix: impl IntoIterator<Item = String>) -> Run {
        let argv = prefix
            .into_iter()
            .chain(self.argv.iter().cloned())
            .collect();
        Run {
            argv,
            ..self.clone()
        }
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the text of the standard input; it is empty by default.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Run {
        self.stdin = Some(text.to_owned());
        self
    }

    /// Starts the command.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[must_use]
    pub fn start(&self) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let output = TempDir::new();
        let create =
            |name: &str| File::create(output.path().join(name)).expect("a file can be made");
        let stdin = match &self.stdin {
            None => Stdio::null(),
            Some(text) => {
                let path = output.path().join("stdin");
                std::fs::write(&path, text).expect("a file can be written");
                File::open(path).expect("the file is there").into()
            }
        };
        let child = Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .env(MARK, &mark)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(create("stdout"))
            .stderr(create("stderr"))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.argv[0]));
        Running {
            child,
            name: self.argv.join(" "),
            mark: format!("{MARK}={mark}"),
            output,
            begin: Instant::now(),
            done: false,
        }
    }

    /// Starts the command and waits for its end.
    ///
    /// # Panics
    /// If it does not end within `limit`.
    #[must_use]
    pub fn finish(&self, limit: Duration) -> Outcome {
        self.start().wait(limit)
    }
}

impl Running {
    /// Process id of the started process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Pids of the started process and of all processes with the same mark, its manager too. A
    /// program may overwrite its environment (redis does), so descendants count as well while it
    /// runs.
    #[must_use]
    pub fn tree(&self) -> Vec<u32> {
        let mut found = proc::marked(&self.mark);
        if !self.done {
            found.extend(proc::descendants(self.pid()));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Processes of [`Running::tree`] whose comm is `comm`, lowest pid first.
    #[must_use]
    pub fn named(&self, comm: &str) -> Vec<u32> {
        let is = |pid: &u32| proc::comm(*pid).is_some_and(|found| found == comm);
        let mut found: Vec<u32> = self.tree().into_iter().filter(is).collect();
        found.sort_unstable();
        found
    }

    /// The standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.printed("stdout")
    }

    /// The standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.printed("stderr")
    }

    /// Contents so far of the output file `name`, `stdout` or `stderr`.
    fn printed(&self, name: &str) -> String {
        let bytes = std::fs::read(self.output.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Exit status of the process; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        self.done |= status.is_some();
        status
    }

    /// Sends a signal to the started process.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Kills only the started process (SIGKILL) and waits for its end.
    pub fn kill_and_reap(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.done = true;
    }

    /// Waits for the end of the process, and lets its managers end.
    ///
    /// # Panics
    /// If `limit` passes first; the message says where each thread waits.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Outcome {
        let status = wait::poll(limit, || self.ended());
        let took = self.begin.elapsed();
        let Some(status) = status else {
            panic!(
                "{} did not end within {limit:?}\n{}",
                self.name,
                self.state()
            );
        };
        self.let_managers_end();
        Outcome {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
            took,
        }
    }

    /// Whether the process has ended, or is a manager or hard-limit guard of pagetide. The started
    /// process does not count, though it may be pagetide itself.
    fn is_ours(&self, pid: u32) -> bool {
        // A process that has just ended has no name.
        pid != self.pid() && proc::comm(pid).is_none_or(|comm| comm == "pagetide")
    }

    /// If only managers and hard-limit guards still run, waits for them to end on their own.
    ///
    /// Regression: this function killed a manager while it wrote its report, and the test missed
    /// that report.
    fn let_managers_end(&self) {
        let are_at_work = || {
            let tree = self.tree();
            !tree.is_empty() && tree.iter().all(|pid| self.is_ours(*pid))
        };
        let _ = wait::poll(MANAGERS_END, || (!are_at_work()).then_some(()));
    }

    /// Text for the message of a failure: every process of the tree, and the end of the standard
    /// error.
    #[must_use]
    pub fn state(&self) -> String {
        let tree: Vec<String> = self.tree().into_iter().map(autopsy::describe).collect();
        format!(
            "{}\n{}\nstderr: {}",
            self.name,
            tree.join("\n"),
            tail(&self.stderr(), 2000)
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Kills the program first and waits until all its processes are gone: the managers still
        // have a report to write. Regression: a killed process that had not ended yet is not a
        // manager, so the managers were killed at once, too (in one run of fifty).
        if !self.done {
            self.kill_and_reap();
        }
        let _ = wait::poll(MANAGERS_END, || {
            let tree = self.tree().into_iter();
            let others: Vec<u32> = tree.filter(|pid| !self.is_ours(*pid)).collect();
            others.iter().for_each(|pid| send(*pid, Signal::KILL));
            others.is_empty().then_some(())
        });
        self.let_managers_end();
        for pid in self.tree() {
            // Regression: a report was missing, and the log did not show whether its manager had
            // crashed or was killed here because it hung.
            eprintln!(
                "killed, as it did not end by itself: {}",
                autopsy::describe(pid)
            );
            send(pid, Signal::KILL);
        }
    }
}

/// Sends a signal to a process; ignores that the process may have ended.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// The last `count` bytes of a text, or a few less: it begins with a whole character.
#[must_use]
pub fn tail(text: &str, count: usize) -> &str {
    let from = text.len().saturating_sub(count);
    let from = (from..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    &text[from..]
}
