//! The manager's process, beside a program that `run` starts.
//!
//! Invariant: the manager is no child of the program, leads a session of its own, has `/` as its
//! working directory and has none of the program's files open. So no process waits for it, and it
//! delays no other process's end. It manages only the process that made its channel, as the kernel
//! reports it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use host::report::Report;
use host::system::start;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};

use crate::control::wait_for_name;
use crate::error::Error;
pub use crate::handshake::WORD;
use crate::handshake::{BEGIN, EXE, Reply, Setup, receive, send};
use crate::preflight;
use crate::serve::{NoWatcher, RunningManager};

/// Second argument of the manager's process.
const SERVE: &str = "serve";

/// Longest wait for the program's execve(2); after it the process is managed as it is.
const UNTIL_EXEC: Duration = Duration::from_secs(10);

/// Runs a manager's process, by the arguments after [`WORD`]; returns its exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    let reported = match args.first().and_then(|word| word.to_str()) {
        Some(BEGIN) => begin(args),
        Some(SERVE) => serve(),
        _ => Err(Error::failed(
            "no command for people",
            "see pagetide --help",
        )),
    };
    reported.map_or(1, |()| 0)
}

/// The intermediate process: starts the manager and ends.
fn begin(args: &[OsString]) -> Result<(), Error> {
    let failed = |error| {
        let what = format!("the manager cannot be started: {error}");
        Error::failed(what, "is the limit of processes (ulimit -u) high enough?")
    };
    // The manager does not inherit descriptors of the program.
    let spawned = start::close_on_exec_from(3).and_then(|()| {
        Command::new(EXE)
            .arg0(start::NAME)
            .args([WORD, SERVE])
            // This argument is only for users: `ps` shows it.
            .args(args.get(1))
            .current_dir("/")
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .spawn()
    });
    let reported = spawned.map(drop).map_err(failed);
    if let Err(error) = &reported {
        // If there is no channel, no process can be notified.
        let _ = channel().map(|channel| send(&channel, &Reply::Failed(error.clone())));
    }
    reported
}

/// The manager's process: receives its setup, manages the program, and writes the report.
fn serve() -> Result<(), Error> {
    let broken = |error| {
        Error::failed(
            format!("no channel to what is to be managed: {error}"),
            "use `pagetide run`",
        )
    };
    let channel = channel().map_err(broken)?;
    let output = duplicate(std::io::stdout())
        .map(File::from)
        .map_err(broken)?;
    // We write no messages to standard error: for a recording it is the recording's file.
    let record = duplicate(std::io::stderr())
        .map(File::from)
        .map_err(broken)?;
    separate_from_program();
    let setup: Option<Setup> = receive(&channel, UNTIL_EXEC).map_err(broken)?;
    let Some(setup) = setup else {
        return Err(Error::failed(
            "the program to be managed has ended",
            "start it again",
        ));
    };
    if setup.has_report {
        report_panics(duplicate(&output).map_err(broken)?.into());
    }
    let mut served = match begin_managing(&channel, &setup) {
        Ok(served) => served,
        Err(error) => {
            let _ = send(&channel, &Reply::Failed(error.clone()));
            return Err(error);
        }
    };
    // Remove an earlier run's report. (If it is a pipe, this does nothing.)
    if setup.empties_report {
        let _ = output.set_len(0);
    }
    // If this fails the program has ended, and the first scan finds that.
    let _ = send(&channel, &Reply::Ready(served.notes().to_vec()));
    let _ = receive::<()>(&channel, UNTIL_EXEC);
    drop(channel);
    served.note_exec();
    // The recording begins with the program's own pages: until execve(2) the process was pagetide.
    if let Some(about) = setup.record {
        served.record(about.begin(record));
    }
    let (report, ended) = served.stay(&mut NoWatcher);
    if setup.has_report {
        save(output, &report, setup.empties_report)?;
    }
    ended
}

/// Begins to manage the process that made the channel.
fn begin_managing(channel: &UnixStream, setup: &Setup) -> Result<RunningManager, Error> {
    let (pid, uid) = start::peer(channel.as_fd()).map_err(|error| {
        Error::failed(
            format!("no process to be managed: {error}"),
            "use `pagetide run`",
        )
    })?;
    // The process is undumpable like us until it becomes the program, so only its user is checked.
    if uid != rustix::process::getuid().as_raw() {
        let what = format!("cannot manage pid {pid}: it belongs to another user");
        return Err(Error::missing(what, "run pagetide as that user"));
    }
    if !is_still_ours(pid) {
        let what = format!("cannot manage pid {pid}: it has ended");
        return Err(Error::missing(what, "start it again"));
    }
    let chosen = preflight::own(pid);
    wait_for_name(&chosen.tenant);
    RunningManager::begin(chosen, setup.options.clone(), true)
}

/// Returns whether a process belongs to the manager's user: the process that made the channel may
/// have ended, and another may have got its pid. The owner of /proc/PID is no evidence: it is root
/// while the process is undumpable.
fn is_still_ours(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    crate::rights::are_all(&status, "Uid:", rustix::process::getuid().as_raw())
}

/// Returns a copy of the manager's standard input, which is its socket to the process that started
/// the manager.
fn channel() -> std::io::Result<UnixStream> {
    Ok(duplicate(std::io::stdin())?.into())
}

/// Returns a copy of a descriptor; the copy is closed at the next exec.
fn duplicate(fd: impl AsFd) -> std::io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

/// Separates this process from the program: a session, a name, signals and limits of our own.
fn separate_from_program() {
    // If one of these calls fails, the manager keeps the program's setting.
    let _ = setsid();
    start::take_name();
    start::block_no_signal();
    for resource in [
        Resource::As,
        Resource::Cpu,
        Resource::Data,
        Resource::Fsize,
        Resource::Memlock,
        Resource::Nofile,
    ] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let free = Rlimit {
            current: None,
            maximum: None,
        };
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        // RLIMIT_NOFILE must not be infinite: use the hard limit.
        if current.is_some() && (resource == Resource::Nofile || setrlimit(resource, free).is_err())
        {
            let _ = setrlimit(resource, raised);
        }
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Makes a panic of the manager write to the report's file why there is no report. The program goes
/// on, and the guard of the hard-limit cgroup lifts the cgroup's limits.
fn report_panics(file: File) {
    std::panic::set_hook(Box::new(move |panic| {
        let error = format!("a defect of pagetide, the manager {panic}");
        let reported = serde_json::json!({ "error": error });
        let _ = writeln!(&file, "{reported:#}");
    }));
}

/// Writes the report in one call, so that no reader sees half of it. If writing fails and the file
/// is the report's own, the file is empty afterwards.
fn save(mut file: File, report: &Report, is_own: bool) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(report).unwrap_or_default();
    text.push(b'\n');
    // Beyond the file size limit the kernel would end us by SIGXFSZ with half a report written. (It
    // has no limit for pipes and terminals.)
    let end = |meta: std::fs::Metadata| meta.is_file().then_some(meta.len() + text.len() as u64);
    let end = file.metadata().ok().and_then(end);
    let most = getrlimit(Resource::Fsize).current;
    let may = match end.zip(most).is_some_and(|(end, most)| end > most) {
        true => Err(Errno::FBIG.into()),
        false => Ok(()),
    };
    may.and_then(|()| file.write_all(&text))
        .map_err(|error: io::Error| {
            // On a full disk the report may be cut off: scripts that wait for a non-empty file must
            // not read that.
            if is_own {
                let _ = file.set_len(0);
            }
            Error::failed(
                format!("cannot write the report: {error}"),
                "is the disk full, or the limit of file sizes low (ulimit -f)?",
            )
        })
}
