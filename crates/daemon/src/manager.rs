//! The process of a manager beside a program that `run` starts.
//!
//! Invariant: it is nobody's child, leads a session of its own, stands in `/` and has nothing open that the
//! program was given, so nobody waits for it and nothing is kept from ending by it. It manages whoever made
//! its channel, by the kernel's word, and nobody else.

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
use crate::serve::{Nobody, Served};

/// Second argument: be the manager.
const SERVE: &str = "serve";

/// A process that does not become its program within this time is managed as it is.
const UNTIL_EXEC: Duration = Duration::from_secs(10);

/// A manager's process, by the arguments after [`WORD`]; its exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    let told = match args.first().and_then(|word| word.to_str()) {
        Some(BEGIN) => begin(args),
        Some(SERVE) => serve(),
        _ => Err(Error::failed(
            "no command for people",
            "see pagetide --help",
        )),
    };
    told.map_or(1, |()| 0)
}

/// The process between: starts the manager and ends.
fn begin(args: &[OsString]) -> Result<(), Error> {
    let failed = |error| {
        let what = format!("the manager cannot be started: {error}");
        Error::failed(what, "is the limit of processes (ulimit -u) high enough?")
    };
    // What the program was given stays its own.
    let spawned = start::close_on_exec_from(3).and_then(|()| {
        Command::new(EXE)
            .arg0(start::NAME)
            .args([WORD, SERVE])
            // For people who look at `ps`.
            .args(args.get(1))
            .current_dir("/")
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .spawn()
    });
    let told = spawned.map(drop).map_err(failed);
    if let Err(error) = &told {
        // Without a channel nobody can be told.
        let _ = channel().map(|channel| send(&channel, &Reply::Failed(error.clone())));
    }
    told
}

/// The manager.
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
    // Nothing of ours is said there: who records has it as a file.
    let record = duplicate(std::io::stderr())
        .map(File::from)
        .map_err(broken)?;
    own_process();
    let setup: Option<Setup> = receive(&channel, UNTIL_EXEC).map_err(broken)?;
    let Some(setup) = setup else {
        return Err(Error::failed(
            "the program to be managed is gone",
            "start it again",
        ));
    };
    if setup.has_report {
        tell_of_panics(duplicate(&output).map_err(broken)?.into());
    }
    let mut served = match served(&channel, &setup) {
        Ok(served) => served,
        Err(error) => {
            let _ = send(&channel, &Reply::Failed(error.clone()));
            return Err(error);
        }
    };
    // What was said of an earlier run is not of this one. (A pipe has no length.)
    if setup.empties_report {
        let _ = output.set_len(0);
    }
    // If nobody reads that, the process has ended, which the first look finds.
    let _ = send(&channel, &Reply::Ready(served.notes().to_vec()));
    let _ = receive::<()>(&channel, UNTIL_EXEC);
    drop(channel);
    served.begin_anew();
    // From the program's own pages on: until the exec it was this program of ours.
    if let Some(about) = setup.record {
        served.record(about.begin(record));
    }
    let (report, ended) = served.stay(&mut Nobody);
    if setup.has_report {
        save(output, &report, setup.empties_report)?;
    }
    ended
}

/// Begins to manage whoever made the channel.
fn served(channel: &UnixStream, setup: &Setup) -> Result<Served, Error> {
    let (pid, uid) = start::peer(channel.as_fd()).map_err(|error| {
        Error::failed(
            format!("no process to be managed: {error}"),
            "use `pagetide run`",
        )
    })?;
    // It is as undumpable as we are until it becomes the program, so its user alone is asked for.
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
    Served::begin(chosen, setup.options.clone(), true)
}

/// Whether a process is our user's: who made the channel may have ended, and its number be another's. (Not by the owner of /proc/PID, which is
/// root's while we are undumpable.)
fn is_still_ours(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    crate::rights::are_all(&status, "Uid:", rustix::process::getuid().as_raw())
}

/// The channel that is our standard input.
fn channel() -> std::io::Result<UnixStream> {
    Ok(duplicate(std::io::stdin())?.into())
}

/// Another descriptor, closed by an exec.
fn duplicate(fd: impl AsFd) -> std::io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

/// Away from the program: a session, a name, signals and limits of our own.
fn own_process() {
    // Each of these has a fallback: to be as the program is.
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
        // So many descriptors as anybody has; no limit at all is not allowed there.
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

/// A defect of ours ends the manager, and nobody hears what it says: the file of the report tells why there is no
/// report. The program goes on, and the wall's guard lifts its limits.
fn tell_of_panics(file: File) {
    std::panic::set_hook(Box::new(move |panic| {
        let error = format!("a defect of pagetide, the manager {panic}");
        let told = serde_json::json!({ "error": error });
        let _ = writeln!(&file, "{told:#}");
    }));
}

/// Writes the report at once, so that nobody reads half of it; where that cannot be, one that is our own is empty.
fn save(mut file: File, report: &Report, is_own: bool) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(report).unwrap_or_default();
    text.push(b'\n');
    // The kernel would end us by SIGXFSZ in the middle, and half of it would stay. (It has no limit for pipes and terminals.)
    let end = |meta: std::fs::Metadata| meta.is_file().then_some(meta.len() + text.len() as u64);
    let end = file.metadata().ok().and_then(end);
    let most = getrlimit(Resource::Fsize).current;
    let may = match end.zip(most).is_some_and(|(end, most)| end > most) {
        true => Err(Errno::FBIG.into()),
        false => Ok(()),
    };
    may.and_then(|()| file.write_all(&text))
        .map_err(|error: io::Error| {
            // (The story: on a full disk it was cut off, and scripts that waited for a file with something in it read that.)
            if is_own {
                let _ = file.set_len(0);
            }
            Error::failed(
                format!("cannot write the report: {error}"),
                "is the disk full, or the limit of file sizes low (ulimit -f)?",
            )
        })
}
