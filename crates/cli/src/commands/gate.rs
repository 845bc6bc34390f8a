//! `pagetide run --fail-above`: compares a program's memory with a size after the program has
//! ended.
//!
//! Invariant: if the program did not end with 0, its exit code is kept. Standard output is the
//! program's. A program whose memory was not measured does not pass: then the kernel's figure of
//! its largest process is compared.

mod verdict;

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use daemon::control::{Request, Tenant, ask};
use host::report::Report;
use host::system::{private_dir, start};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Pid, Signal, kill_process};

use crate::args::{Annotation, Gate, Run};
use crate::failure::Failure;

use super::requests::SHORT_TIMEOUT;
use verdict::{Verdict, github, junit};

/// How long to wait for the program's descendants after the program itself has ended.
const DESCENDANTS_TIMEOUT: Duration = Duration::from_secs(10);
const PULSE: Duration = Duration::from_millis(20);

/// Runs the program, waits until it has ended, and compares its memory with the size.
pub(super) fn run(args: &Run) -> Result<u8, Failure> {
    daemon::rights::drop_capabilities_of_file()?;
    let folder = Folder::make()?;
    let file = folder.0.join("report.json");
    let signals = Signals::catch()?;
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|word| word != "run") {
        return Err(Failure::usage(
            "cannot run a program with --fail-above: this is not the command line of `pagetide run`",
            "start `pagetide run` as a program",
        ));
    }
    let mut child = Command::new("/proc/self/exe")
        .args(["run".as_ref(), "--measured-in".as_ref(), file.as_os_str()])
        .args(words)
        .spawn()
        .map_err(|error| failed("start the program", &error))?;
    let status = signals
        .wait(&mut child)
        .map_err(|error| failed("wait for the program", &error))?;
    let report = file.exists().then(|| read(&file, child.id())).flatten();
    let verdict = Verdict::of(&args.gate, code(status), report.as_ref(), largest());
    let mut is_written = print_and_write(&args.gate, &verdict, &args.command);
    if let (Some(path), Ok(text)) = (&args.report, std::fs::read(&file)) {
        is_written &= written(path, &text);
    }
    Ok(if is_written {
        verdict.code
    } else {
        verdict.code.max(1)
    })
}

/// Returns the peak resident bytes of the largest process of the program that was waited for; 0 if
/// the kernel does not report it. (The pagetide process became the program by an exec, so the
/// figure is at least pagetide's own.)
fn largest() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    usage.map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or(0) << 10)
}

/// Writes a file; returns whether that succeeded, and prints an error on standard error if not.
fn written(path: &Path, bytes: &[u8]) -> bool {
    let done = std::fs::write(path, bytes);
    if let Err(error) = &done {
        let text = format!("pagetide: cannot write {}: {error}", path.display());
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    done.is_ok()
}

/// Prints the verdict and writes the requested file; returns whether the file was written.
fn print_and_write(gate: &Gate, verdict: &Verdict, command: &[OsString]) -> bool {
    let line = match gate.format {
        None => format!("pagetide: {}", verdict.text),
        Some(Annotation::Github) => github(verdict),
    };
    // If standard error is closed, the exit code still reports the result.
    let _ = writeln!(std::io::stderr(), "{line}");
    let junit = |path: &PathBuf| written(path, junit(verdict, command).as_bytes());
    gate.junit.as_ref().is_none_or(junit)
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot {what}: {error}"),
        "is there room on the disk, and for processes (ulimit -u)?",
    )
}

/// Returns the exit code that a shell would set: 128 + n after signal n.
fn code(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(1)
}

/// A directory of this process, in pagetide's private directory; `Drop` removes it.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, Failure> {
        let above = private_dir::make("gate").map_err(|refused| {
            let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
            Failure::new(
                format!("cannot make a folder for the report: {}", all.join("; ")),
                "one of these directories must be writable",
            )
        })?;
        // An earlier process that was killed, or a process in another pid namespace, may have the
        // same pid.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.unwrap_or_default().as_nanos();
        let path = above.path().join(format!("{}-{nanos}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| failed(&format!("make {}", path.display()), &error))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Signals that are forwarded to the program.
struct Signals(Vec<(Signal, Arc<AtomicBool>)>);

impl Signals {
    /// Catches the signals that are not ignored. (The program inherits the ignored ones as
    /// ignored.)
    fn catch() -> Result<Signals, Failure> {
        let all = [
            Signal::TERM,
            Signal::HUP,
            Signal::USR1,
            Signal::USR2,
            Signal::INT,
            Signal::QUIT,
        ];
        let caught = all
            .into_iter()
            .filter(|signal| !start::is_ignored(signal.as_raw()))
            .map(|signal| {
                let flag = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(signal.as_raw(), Arc::clone(&flag))?;
                Ok((signal, flag))
            });
        let caught: std::io::Result<_> = caught.collect();
        caught
            .map(Signals)
            .map_err(|error| failed("handle signals", &error))
    }

    fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            for (signal, flag) in &self.0 {
                let is_keyed = [Signal::INT, Signal::QUIT].contains(signal) && in_front();
                if flag.swap(false, Ordering::Relaxed) && !is_keyed {
                    // The child is not reaped yet, so no other process has its pid.
                    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    let _ = pid.map(|pid| kill_process(pid, *signal));
                }
            }
            std::thread::sleep(PULSE);
        }
    }
}

/// Returns whether this process group is in the foreground of a terminal. If so, the terminal sends
/// its signals also to the program.
fn in_front() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    })
}

/// Returns the report that the manager wrote at its end; `None` if it ended without a report.
fn read(file: &Path, pid: u32) -> Option<Report> {
    let wait = || {
        let end = Instant::now() + DESCENDANTS_TIMEOUT;
        loop {
            let text = std::fs::read(file).unwrap_or_default();
            let report = serde_json::from_slice(&text).ok();
            if report.is_some() || Instant::now() > end {
                return report;
            }
            std::thread::sleep(PULSE);
        }
    };
    wait().or_else(|| {
        let detach = Request::Detach { bring_back: false };
        ask(&Tenant::Pid(pid), &detach, SHORT_TIMEOUT).ok()?;
        wait()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the folder was in /tmp and had a predictable name, which any user could have
    /// created first.
    #[test]
    fn the_folder_is_private_and_a_stale_one_of_the_same_pid_does_no_harm() {
        let first = Folder::make().expect("a private directory");
        let second = Folder::make().expect("another one");
        assert!(first.0.is_dir() && second.0.is_dir());
        let places = private_dir::existing(private_dir::effective_user(), "gate");
        for folder in [first, second] {
            let path = folder.0.clone();
            let above = path.parent();
            let is_ours = places.iter().any(|place| Some(place.path()) == above);
            assert!(is_ours, "{path:?}");
            drop(folder);
            assert!(!path.exists());
        }
    }
}
