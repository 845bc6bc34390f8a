//! Running processes that do not outlive their test.
//!
//! Each is started with a mark of its own in the environment. Everything it starts inherits the mark,
//! also managers, which are nobody's children. `Drop` kills by that mark, each process by its id.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::temp::TempDir;
use crate::{autopsy, proc, wait};

const MARK: &str = "PAGETIDE_E2E";

/// A command to be run, its mark not yet chosen.
#[derive(Clone, Debug)]
pub struct Run {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    stdin: Option<String>,
}

/// How a process ended and what it printed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

/// A manager writes its report and takes its wall down in much less.
const MANAGERS_END: Duration = Duration::from_secs(10);

/// A process that runs; killed with all it started when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    mark: String,
    output: TempDir,
    begin: Instant,
    done: bool,
}

impl Run {
    /// A command line.
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

    /// The same command as the argument of another: `prefix... argv...`.
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

    /// With a variable in its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this text as its standard input; without, it reads nothing.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Run {
        self.stdin = Some(text.to_owned());
        self
    }

    /// Starts it.
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

    /// Starts it and waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    #[must_use]
    pub fn finish(&self, limit: Duration) -> Outcome {
        self.start().wait(limit)
    }
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All processes that carry its mark: itself, what it started, its manager. A program may
    /// overwrite its environment (redis does), so its children count as well while it runs.
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

    /// The processes of the tree that have this comm, lowest id first.
    #[must_use]
    pub fn named(&self, comm: &str) -> Vec<u32> {
        let is = |pid: &u32| proc::comm(*pid).is_some_and(|found| found == comm);
        let mut found: Vec<u32> = self.tree().into_iter().filter(is).collect();
        found.sort_unstable();
        found
    }

    /// What it printed so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.printed("stdout")
    }

    /// What it complained so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.printed("stderr")
    }

    fn printed(&self, name: &str) -> String {
        let bytes = std::fs::read(self.output.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        self.done |= status.is_some();
        status
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// SIGKILL to the process itself alone, and its end.
    pub fn kill_and_reap(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.done = true;
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// After `limit`, with where everything waits.
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

    /// Whether it is a manager or a guard beside what was started, which may be pagetide itself; or nobody any more.
    fn is_ours(&self, pid: u32) -> bool {
        // Who has just ended has no name.
        pid != self.pid() && proc::comm(pid).is_none_or(|comm| comm == "pagetide")
    }

    /// The story: now and then a test missed a report, for its manager was killed here while it wrote it. Where a
    /// program leaves nobody behind but managers, they get the time to end by themselves.
    fn let_managers_end(&self) {
        let are_at_work = || {
            let tree = self.tree();
            !tree.is_empty() && tree.iter().all(|pid| self.is_ours(*pid))
        };
        let _ = wait::poll(MANAGERS_END, || (!are_at_work()).then_some(()));
    }

    /// For the message of a failure: every process of the tree, and the tail of what was printed.
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
        // The program first: its manager has a report to write. Until all of it is gone: whoever has been killed and still
        // stands there is no manager, and (the story, seen in one run of fifty) the managers were killed with it at once.
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
            // The story: a report was missed, and nobody could tell whether its manager had died, or hung and was killed here.
            eprintln!(
                "killed, as it did not end by itself: {}",
                autopsy::describe(pid)
            );
            send(pid, Signal::KILL);
        }
    }
}

/// Sends a signal to a process that may be gone.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// The last `count` bytes or so.
#[must_use]
pub fn tail(text: &str, count: usize) -> &str {
    let from = text.len().saturating_sub(count);
    let from = (from..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    &text[from..]
}
