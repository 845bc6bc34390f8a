//! `pagetide run --fail-above`: a program's memory compared with a size when the program has ended.
//!
//! Invariant: a program that ended with anything but 0 keeps its exit code; standard output is the program's. A memory that was not
//! measured never passes: then the kernel's figure of the largest process counts.

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
use std::time::{Duration, Instant};

use daemon::control::{Request, Tenant, ask};
use host::report::Report;
use host::system::start;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Pid, Signal, kill_process};

use crate::args::{Annotation, Gate, Run};
use crate::failure::Failure;

use super::ask::QUICK;
use verdict::{Verdict, github, junit};

/// How long descendants may run on after the program before they are let go of.
const STRAGGLERS: Duration = Duration::from_secs(10);
const PULSE: Duration = Duration::from_millis(20);

/// Runs the program, waits for it, and compares.
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
    let mut is_written = tell(&args.gate, &verdict, &args.command);
    if let (Some(path), Ok(text)) = (&args.report, std::fs::read(&file)) {
        is_written &= written(path, &text);
    }
    Ok(if is_written {
        verdict.code
    } else {
        verdict.code.max(1)
    })
}

/// Bytes that the largest of the program's processes had, of those that it waited for; from the kernel. (It became the program, so what
/// pagetide itself had before is a lower bound.) 0 where the kernel refuses.
fn largest() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    usage.map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or(0) << 10)
}

/// Whether it could be; standard error says why not.
fn written(path: &Path, bytes: &[u8]) -> bool {
    let done = std::fs::write(path, bytes);
    if let Err(error) = &done {
        let text = format!("pagetide: cannot write {}: {error}", path.display());
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    done.is_ok()
}

/// Whether all files were written.
fn tell(gate: &Gate, verdict: &Verdict, command: &[OsString]) -> bool {
    let line = match gate.format {
        None => format!("pagetide: {}", verdict.text),
        Some(Annotation::Github) => github(verdict),
    };
    // Standard error may be closed; the exit code says it, too.
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

/// As a shell gives it: 128 + n after signal n.
fn code(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(1)
}

/// A private folder, removed in `Drop`.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Folder, Failure> {
        let path = std::env::temp_dir().join(format!("pagetide-run-{}", std::process::id()));
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

/// Signals that are passed on to the program.
struct Signals(Vec<(Signal, Arc<AtomicBool>)>);

impl Signals {
    /// Catches those that were not ignored: the program inherits what is ignored.
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
                    // It is not reaped yet, so the number is its own.
                    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    let _ = pid.map(|pid| kill_process(pid, *signal));
                }
            }
            std::thread::sleep(PULSE);
        }
    }
}

/// Whether this process group is a terminal's foreground: the terminal then signals the program, too.
fn in_front() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    })
}

/// The manager's last report; `None` if the manager ended without one.
fn read(file: &Path, pid: u32) -> Option<Report> {
    let wait = || {
        let end = Instant::now() + STRAGGLERS;
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
        ask(&Tenant::Pid(pid), &detach, QUICK).ok()?;
        wait()
    })
}
