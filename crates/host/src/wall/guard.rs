//! The guard: a small process that lifts the wall when the manager ends without having removed it.
//!
//! Invariant: it is in no wall and in a session of its own, is nobody's child whom the program could wait
//! for, and holds three descriptors and nothing else: a line to the manager, the group, and the manager
//! itself (a pidfd, so that a later process with its number is not taken for it). It lifts once, and only a
//! wall that is still the dead manager's; then it ends. If it is killed as well, the wall stays until the
//! next start takes it up.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, setsid};

use super::mark::Mark;
use super::{Wall, files, limits};
use crate::system::cgroup::Version;
use crate::system::start::{NAME, take_name};
use crate::system::{Identity, Proc};

/// The first argument that makes a program of ours a guard: its `main` then calls [`main`].
pub const ARGUMENT: &str = "__guard";
/// The second argument of the process that stays.
const STAND: &str = "stand";
/// For it to say that it stands.
const STARTING: Duration = Duration::from_secs(5);
/// For the lock of a dead manager to be free: a child that it just forked may hold it until its exec.
const RELEASE: Duration = Duration::from_millis(300);

/// A guard that stands. Dropping this leaves it there; it then waits for the manager's end.
#[derive(Debug)]
pub struct Guard {
    line: UnixStream,
    pid: u32,
}

/// Starts one for the manager that has the wall. `exe` is our own program, whose `main` knows [`ARGUMENT`].
///
/// # Errors
/// If it cannot be started, or that manager has ended or is in the wall itself.
pub fn start(wall: &Wall, exe: &Path) -> io::Result<Guard> {
    let manager = wall.manager();
    if wall.pids()?.contains(&manager.pid) {
        let why = "the manager is in the wall that it holds up";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let pidfd = pidfd_of(manager)?;
    let (ours, theirs) = UnixStream::pair()?;
    let group = files::open_again(&*wall.dir()?)?;
    let mut child = Command::new(exe)
        .arg0(NAME)
        .arg(ARGUMENT)
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(group)
        .stderr(pidfd)
        .spawn()?;
    // A caller that waits for all of its children may have taken the status.
    let _ = child.wait();
    ours.set_read_timeout(Some(STARTING))?;
    let mut said = [0; 4];
    (&ours).read_exact(&mut said).map_err(|error| {
        let why = format!("the guard {} does not stand: {error}", exe.display());
        io::Error::new(error.kind(), why)
    })?;
    Ok(Guard {
        line: ours,
        pid: u32::from_ne_bytes(said),
    })
}

/// The process itself, whoever gets its number later.
fn pidfd_of(process: Identity) -> io::Result<OwnedFd> {
    let ended = || io::Error::new(io::ErrorKind::NotFound, "the manager has ended");
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pidfd = pidfd_open(pid.ok_or_else(ended)?, PidfdFlags::empty())?;
    let now = Proc::system().and_then(|proc| proc.identity(process.pid));
    // An earlier process of that number would have ended by now, and a later one began later.
    if now.map_err(io::Error::other)? != Some(process) || is_ready(pidfd.as_fd()) {
        return Err(ended());
    }
    Ok(pidfd)
}

impl Guard {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it still stands.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // It says nothing more: what can be read is the end.
        !is_ready(self.line.as_fd())
    }

    /// Sends it away: the wall stays as it is, whatever becomes of the manager.
    pub fn dismiss(mut self) {
        // If it is gone already, so much the better.
        let _ = self.line.write_all(b"x");
    }
}

/// What `main` of a program that was started with [`ARGUMENT`] does, with the arguments behind that; the
/// exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    take_name();
    let done = match args.first() {
        Some(word) if word == STAND => stand(),
        Some(_) => return 2,
        None => leave_family(),
    };
    u8::from(done.is_err())
}

/// The first of two: becomes a session of its own, starts the second and ends, so that nobody is left who
/// could wait for that one.
fn leave_family() -> io::Result<()> {
    setsid()?;
    pagetables::close_on_exec_from(3)?;
    // The program that this is, should its file have been replaced.
    Command::new("/proc/self/exe")
        .arg0(NAME)
        .args([ARGUMENT, STAND])
        .stdin(Stdio::inherit())
        .spawn()?;
    Ok(())
}

/// The second: waits for the manager's end, or to be sent away.
fn stand() -> io::Result<()> {
    let (line, group, manager) = (io::stdin(), io::stdout(), io::stderr());
    let (line, manager) = (line.as_fd(), manager.as_fd());
    let group = group.as_fd().try_clone_to_owned()?;
    let mark = Mark::of(&group).ok_or(io::ErrorKind::InvalidData)?;
    if rustix::fs::fstat(&group)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    rustix::io::write(line, &std::process::id().to_ne_bytes())?;
    let mut has_line = true;
    loop {
        let mut fds = vec![PollFd::new(&manager, PollFlags::IN)];
        if has_line {
            fds.push(PollFd::new(&line, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            done => done?,
        };
        let ended = !fds[0].revents().is_empty();
        // What it sent before it ended counts.
        if has_line && is_ready(line) {
            match rustix::io::read(line, &mut [0; 1]) {
                Ok(1) => return Ok(()),
                _ => has_line = false,
            }
        }
        if ended {
            return lift(&group, &mark);
        }
    }
}

fn lift(group: &OwnedFd, mark: &Mark) -> io::Result<()> {
    let end = Instant::now() + RELEASE;
    while flock(group, FlockOperation::NonBlockingLockExclusive).is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    // Removed in good order, or somebody has taken it up already.
    if Mark::of(group).is_none_or(|now| now != *mark) {
        return Ok(());
    }
    let version = match files::read(group, "memory.limit_in_bytes") {
        Ok(_) => Version::V1,
        Err(_) => Version::V2,
    };
    match limits::lift(group, version, mark.ceiling) {
        Err((_, errno)) if files::kind(errno) != io::ErrorKind::NotFound => Err(errno.into()),
        _ => Ok(()),
    }
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut fds, Some(&now)), Ok(1..))
}
