//! Steps of a check. Each prints a line with its time, and with the counts of its test binaries.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::command::name;
use crate::counts::{Counts, failed_test};
use crate::family::{set_normal_priority, watch};

/// Maximum number of tests in a check that may pass only at the second try: one of two thousand
/// may be disturbed by the machine; several have a cause in the code.
const MOST_RETRIED: u64 = 2;

/// The steps run so far.
pub(crate) struct Steps {
    begin: Instant,
    lines: Vec<String>,
    counts: Counts,
    broken: u64,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps {
            begin: Instant::now(),
            lines: Vec::new(),
            counts: Counts::default(),
            broken: 0,
        }
    }
}

impl Steps {
    /// Runs one step; `work` returns the counts of its tests, or why it failed.
    pub(crate) fn run(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<Counts, String>,
    ) -> bool {
        println!("--- {name}");
        let begin = Instant::now();
        let outcome = work();
        let seconds = begin.elapsed().as_secs_f64();
        let (counts, problem) = match outcome {
            Ok(counts) if counts.ignored > 0 => {
                let why = format!("{} ignored tests: a skip is a failure", counts.ignored);
                (counts, Some(why))
            }
            Ok(counts) => (counts, None),
            Err(why) => (Counts::default(), Some(why)),
        };
        self.counts.add(counts);
        let ok = problem.is_none() && counts.failed == 0;
        // A step that failed without a failed test counts as one failure.
        self.broken += u64::from(!ok && counts.failed == 0);
        let word = if ok { "ok" } else { "FAILED" };
        let why = problem.map(|why| format!(": {why}")).unwrap_or_default();
        let line = format!("{word:6} {name} ({seconds:.1} s){why}");
        println!("{line}");
        self.lines.push(line);
        ok
    }

    /// Runs a step without tests.
    pub(crate) fn plain(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        self.run(name, || work().map(|()| Counts::default()))
    }

    /// Runs a step that is one command, whose exit status decides.
    pub(crate) fn command(&mut self, name: &str, command: &mut Command) -> bool {
        self.run(name, || run_counted(command))
    }

    /// Prints the table of steps, the total time, and the closing line.
    ///
    /// # Errors
    /// If a test or a step failed. The error is empty, as the closing line says all.
    pub(crate) fn finish(self) -> Result<(), String> {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        let failed = self.counts.failed + self.broken;
        // docs/testing.md promises how long a check may take, so each check prints its time.
        println!("{:.0} s in all", self.begin.elapsed().as_secs_f64());
        let all = Counts {
            failed,
            ..self.counts
        };
        println!("{}", all.sum());
        let has_too_many = all.retried > MOST_RETRIED;
        if has_too_many {
            println!("more than {MOST_RETRIED} tests failed at the first try: that is a failure");
        }
        match failed == 0 && !has_too_many {
            true => Ok(()),
            false => Err(String::new()),
        }
    }
}

/// Interval at which the priority of a step's processes is raised, while the step is waited for.
const HURRY_EVERY: Duration = Duration::from_millis(500);

/// Name of a step that runs beside others, and the step, or why it could not be started.
pub(crate) type Running = (&'static str, Result<Beside, String>);

/// Waits for these steps, one after the other; each gets normal priority when the wait for it
/// begins.
pub(crate) fn finish_all(steps: &mut Steps, all: Vec<Running>) {
    for (_, one) in &all {
        if let Ok(one) = one {
            set_normal_priority(one.child.id());
        }
    }
    for (name, one) in all {
        steps.run(name, || one?.finish());
    }
}

/// A step that runs beside others. Its output is printed when it has ended.
pub(crate) struct Beside {
    name: String,
    child: Child,
    output: std::thread::JoinHandle<String>,
}

impl Beside {
    /// Starts the step.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Beside, String> {
        let name = name(command);
        let failed = |error| format!("cannot start {name}: {error}");
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let second = writer.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(writer).stderr(second);
        let child = child.spawn().map_err(failed)?;
        // The command has copies of the pipe's writing end, which would keep the pipe open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let output = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // Output that cannot be read is not printed.
            let _ = BufReader::new(reader).read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Beside {
            name,
            child,
            output,
        })
    }

    /// Waits for the end of the step, prints its output, and returns the counts in its last line.
    ///
    /// # Errors
    /// If it ended without that line.
    fn finish(mut self) -> Result<Counts, String> {
        let status = loop {
            // A process started by one that was not raised yet has the lowest priority, so all are
            // raised again.
            set_normal_priority(self.child.id());
            let status = self.child.try_wait();
            match status.map_err(|error| format!("cannot wait for {}: {error}", self.name))? {
                Some(status) => break status,
                None => std::thread::sleep(HURRY_EVERY),
            }
        };
        let output = self.output.join().unwrap_or_default();
        print!("{output}");
        let counts = output.lines().rev().map(Counts::of_line);
        let mut counts = counts.filter(|counts| *counts != Counts::default());
        counts
            .next()
            .ok_or(format!("{} ended with {status}", self.name))
    }
}

/// Runs a command, passes its output through, and sums the closing lines of its test binaries.
fn run_counted(command: &mut Command) -> Result<Counts, String> {
    let name = name(command);
    counted(&mut started(command)?, &name, |_| ())
}

/// Does the same with a test binary of this name, which is killed if it does not end in time. Adds
/// the names of the tests that failed to `failed`.
pub(crate) fn run_watched(
    name: &str,
    command: &mut Command,
    failed: &mut Vec<String>,
) -> Result<Counts, String> {
    let mut child = started(command)?;
    let (pid, (end, ended)) = (child.id(), channel());
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(name, pid, ended));
        let counts = counted(&mut child, name, |line| {
            failed.extend(failed_test(line).map(str::to_owned));
        });
        drop(end);
        match watch.join() {
            Ok(true) => Err(format!("{name} did not end")),
            _ => counts,
        }
    })
}

fn started(command: &mut Command) -> Result<Child, String> {
    let child = command.stdout(Stdio::piped()).spawn();
    child.map_err(|error| format!("cannot start {}: {error}", name(command)))
}

/// Passes on the output of a child to its end, calls `each` with each line, and sums the closing
/// lines of its test binaries.
fn counted(child: &mut Child, name: &str, mut each: impl FnMut(&str)) -> Result<Counts, String> {
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("{line}");
            each(&line);
            counts.add(Counts::of_line(&line));
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for {name}: {error}"))?;
    if status.success() || counts.failed > 0 {
        return Ok(counts);
    }
    Err(format!("{name} ended with {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn failed_tests_ignored_tests_and_dead_commands_are_failures() {
        let of = |script: &str| {
            let mut steps = Steps::default();
            let ok = steps.command("a", &mut shell(script));
            let counts = (steps.counts.passed, steps.counts.failed, steps.broken);
            assert_eq!(steps.finish().is_ok(), ok, "{script}");
            counts
        };
        assert_eq!(of("echo 'test result: ok. 2 passed; 0 failed;'"), (2, 0, 0));
        let two =
            "for n in 1 2; do echo 'test result: FAILED. 1 passed; 1 failed;'; done; exit 101";
        assert_eq!(of(two), (2, 2, 0));
        assert_eq!(
            of("echo 'test result: ok. 2 passed; 0 failed; 1 ignored;'"),
            (2, 0, 1)
        );
        assert_eq!(of("exit 3"), (0, 0, 1));
        assert!(!Steps::default().command("b", &mut Command::new("/nonexistent/program")));
    }

    #[test]
    fn a_step_beside_others_counts_its_last_line() {
        let run = |script| Beside::start(&mut shell(script)).expect("a shell").finish();
        let said = run("echo '1 passed, 0 failed (guest)'; echo '7 passed, 2 failed' >&2; exit 1");
        assert_eq!(said.map(|one| (one.passed, one.failed)), Ok((7, 2)));
        // A process at the lowest priority, and its children, have normal priority once they are
        // waited for.
        let asks = "ps -o ni= -p $$ | grep -qw 0 && echo 1 passed, 0 failed && exit";
        let inner = format!("for n in $(seq 600); do {asks}; sleep 0.1; done");
        let raised = format!("renice -n 19 -p $$ >&2; sh -c '{inner}'; :");
        let said = run(&raised);
        assert_eq!(said.map(|one| one.passed), Ok(1));
        assert!(run("exit 3").is_err());
        assert!(Beside::start(&mut Command::new("/nonexistent/program")).is_err());
    }
}
