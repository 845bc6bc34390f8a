//! Steps: one line each, with how long it took, and what the test binaries in it counted.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::family::{hurry, watch};
use crate::summary::Counts;

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
    /// Runs one step; `work` says what its tests counted, or why it failed.
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
            Ok(counts) if counts.ignored > 0 => (
                counts,
                Some(format!(
                    "{} ignored tests: a skip is a failure",
                    counts.ignored
                )),
            ),
            Ok(counts) => (counts, None),
            Err(why) => (Counts::default(), Some(why)),
        };
        self.counts.add(counts);
        let ok = problem.is_none() && counts.failed == 0;
        // A step that broke without a failed test to show for it counts as one.
        self.broken += u64::from(!ok && counts.failed == 0);
        let word = if ok { "ok" } else { "FAILED" };
        let why = problem.map(|why| format!(": {why}")).unwrap_or_default();
        let line = format!("{word:6} {name} ({seconds:.1} s){why}");
        println!("{line}");
        self.lines.push(line);
        ok
    }

    /// A step that is one command whose exit status decides.
    pub(crate) fn command(&mut self, name: &str, command: &mut Command) -> bool {
        self.run(name, || run_counted(command))
    }

    /// Prints the table of steps, how long all took, and the closing line; whether all went well.
    pub(crate) fn finish(self) -> bool {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        let failed = self.counts.failed + self.broken;
        // How long a check may take is a promise (docs/testing.md): each one says how long it took.
        println!("{:.0} s in all", self.begin.elapsed().as_secs_f64());
        println!("{} passed, {failed} failed", self.counts.passed);
        failed == 0
    }
}

/// While a step is waited for, its processes are looked at so often.
const HURRY_EVERY: Duration = Duration::from_millis(500);

/// A step that runs beside others, by its name, or why it could not be started.
pub(crate) type Running = (&'static str, Result<Beside, String>);

/// Waits for these, one after the other; none of them yields to others any more.
pub(crate) fn finish_all(steps: &mut Steps, all: Vec<Running>) {
    for (_, one) in &all {
        if let Ok(one) = one {
            hurry(one.child.id());
        }
    }
    for (name, one) in all {
        steps.run(name, || one?.finish());
    }
}

/// A step that runs beside others; what it prints is printed when it has ended.
pub(crate) struct Beside {
    name: String,
    child: Child,
    output: std::thread::JoinHandle<String>,
}

impl Beside {
    /// Starts it.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Beside, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| format!("cannot start {name}: {error}");
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let second = writer.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(writer).stderr(second);
        let child = child.spawn().map_err(failed)?;
        // Our copies of the pipe's end would keep it open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let output = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What cannot be read is not there to be printed.
            let _ = BufReader::new(reader).read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Beside {
            name,
            child,
            output,
        })
    }

    /// Waits for its end, prints what it said, and takes the counts of its closing line.
    ///
    /// # Errors
    /// It broke off before that line.
    fn finish(mut self) -> Result<Counts, String> {
        let status = loop {
            // Who is begun meanwhile by one that was not raised yet has the lowest priority for its life.
            hurry(self.child.id());
            let status = self.child.try_wait();
            match status.map_err(|error| format!("cannot wait for {}: {error}", self.name))? {
                Some(status) => break status,
                None => std::thread::sleep(HURRY_EVERY),
            }
        };
        let output = self.output.join().unwrap_or_default();
        print!("{output}");
        let counts = output.lines().rev().find_map(Counts::of_sum);
        counts.ok_or(format!("{} ended with {status}", self.name))
    }
}

/// Runs a command, passes its output through, and sums the closing lines of test binaries in it.
pub(crate) fn run_counted(command: &mut Command) -> Result<Counts, String> {
    let name = name_of(command);
    counted(&mut started(command)?, &name)
}

/// The same of a test binary, which is ended if it does not end.
pub(crate) fn run_watched(command: &mut Command) -> Result<Counts, String> {
    let name = name_of(command);
    let mut child = started(command)?;
    let (pid, (end, ended)) = (child.id(), channel());
    let watched = name.clone();
    let watch = std::thread::spawn(move || watch(&watched, pid, ended));
    let counts = counted(&mut child, &name);
    drop(end);
    match watch.join() {
        Ok(true) => Err(format!("{name} did not end")),
        _ => counts,
    }
}

fn name_of(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn started(command: &mut Command) -> Result<Child, String> {
    let child = command.stdout(Stdio::piped()).spawn();
    child.map_err(|error| format!("cannot start {}: {error}", name_of(command)))
}

/// Passes the output of a child through to its end, and sums the closing lines of test binaries in it.
fn counted(child: &mut Child, name: &str) -> Result<Counts, String> {
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("{line}");
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
    fn sums_over_binaries_and_fails_on_a_failed_test() {
        let mut steps = Steps::default();
        assert!(steps.command(
            "a",
            &mut shell("echo 'test result: ok. 2 passed; 0 failed;'")
        ));
        let second = "echo 'test result: FAILED. 1 passed; 1 failed;'; exit 101";
        assert!(!steps.command("b", &mut shell(second)));
        assert_eq!(
            (steps.counts.passed, steps.counts.failed, steps.broken),
            (3, 1, 0)
        );
        assert!(!steps.finish());
    }

    #[test]
    fn a_command_that_dies_counts_as_one_failure() {
        let mut steps = Steps::default();
        assert!(!steps.command("a", &mut shell("exit 3")));
        assert!(!steps.command("b", &mut Command::new("/nonexistent/program")));
        assert_eq!(steps.broken, 2);
        assert!(!steps.finish());
    }

    #[test]
    fn what_ran_beside_counts_what_it_said_last() {
        let run = |script| Beside::start(&mut shell(script)).unwrap().finish();
        let said = run("echo '1 passed, 0 failed (guest)'; echo '7 passed, 2 failed' >&2; exit 1");
        assert_eq!(said.map(|one| (one.passed, one.failed)), Ok((7, 2)));
        // What has been at the lowest priority is not any more when it is waited for, children and all.
        let asks = "ps -o ni= -p $$ | grep -qw 0 && echo 1 passed, 0 failed && exit";
        let inner = format!("for n in $(seq 600); do {asks}; sleep 0.1; done");
        let beside = Beside::start(&mut shell(&format!(
            "renice -n 19 -p $$ >&2; sh -c '{inner}'; :"
        )));
        let said = beside.unwrap().finish();
        assert_eq!(said.map(|one| one.passed), Ok(1));
        assert!(run("exit 3").is_err());
        assert!(Beside::start(&mut Command::new("/nonexistent/program")).is_err());
    }

    #[test]
    fn an_ignored_test_is_a_failure() {
        let mut steps = Steps::default();
        let line = "echo 'test result: ok. 2 passed; 0 failed; 1 ignored;'";
        assert!(!steps.command("a", &mut shell(line)));
        assert!(!steps.finish());
    }
}
