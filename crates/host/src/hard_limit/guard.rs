//! The guard: a small process that lifts the limits of the hard-limit cgroup if the manager ends
//! without removing the cgroup.
//!
//! Invariant: the guard is outside of that cgroup and in a session of its own. It is not a child of
//! the program, so the program cannot wait for it. It has only three descriptors: a socket to the
//! manager, the cgroup, and a pidfd of the manager. With the pidfd, no later process with the same
//! pid is taken for the manager. The guard lifts the limits once, and only if the cgroup still
//! belongs to the dead manager; then it ends. If the guard is killed as well, the limits stay until
//! the next start of `run` claims the cgroup.

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

use super::ownership::OwnershipXattr;
use super::{HardLimit, files, limits};
use crate::system::cgroup::Version;
use crate::system::start::{NAME, take_name};
use crate::system::{Identity, Proc};

/// The first argument of a guard process: `main` of our program then calls [`main`] of this module.
pub const ARGUMENT: &str = "__guard";
/// The second argument of the guard process that stays and waits ([`wait_for_manager`]).
const WAIT_ARGUMENT: &str = "stand";
/// Maximum time until the guard reports that it runs.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for the lock of a dead manager. A child that the manager forked just before its end
/// may hold the lock until the child's exec.
const LOCK_TIMEOUT: Duration = Duration::from_millis(300);

/// A running guard. Dropping this value does not end it: it still waits for the manager's end.
#[derive(Debug)]
pub struct Guard {
    /// Our end of the socket to the guard.
    line: UnixStream,
    pid: u32,
}

/// Starts a guard for the manager of the cgroup. `exe` is our own program; its `main` must handle
/// [`ARGUMENT`].
///
/// # Errors
/// The guard cannot be started, or the manager has ended or is in the cgroup itself.
pub fn start(hard_limit: &HardLimit, exe: &Path) -> io::Result<Guard> {
    let manager = hard_limit.manager();
    if hard_limit.pids()?.contains(&manager.pid) {
        let why = "the manager is in the hard-limit cgroup that it manages";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let pidfd = pidfd_of(manager)?;
    let (ours, theirs) = UnixStream::pair()?;
    let group = files::open_again(&*hard_limit.dir()?)?;
    let mut child = Command::new(exe)
        .arg0(NAME)
        .arg(ARGUMENT)
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(group)
        .stderr(pidfd)
        .spawn()?;
    // This fails if the caller waits for all of its children and has collected the status already.
    let _ = child.wait();
    ours.set_read_timeout(Some(START_TIMEOUT))?;
    let mut pid_bytes = [0; 4];
    (&ours).read_exact(&mut pid_bytes).map_err(|error| {
        let why = format!("the guard {} did not start: {error}", exe.display());
        io::Error::new(error.kind(), why)
    })?;
    Ok(Guard {
        line: ours,
        pid: u32::from_ne_bytes(pid_bytes),
    })
}

/// Returns a pidfd of the process, which stays valid for it even if its pid is reused.
fn pidfd_of(process: Identity) -> io::Result<OwnedFd> {
    let ended = || io::Error::new(io::ErrorKind::NotFound, "the manager has ended");
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pidfd = pidfd_open(pid.ok_or_else(ended)?, PidfdFlags::empty())?;
    let now = Proc::system().and_then(|proc| proc.identity(process.pid));
    // The check comes after the open: if the pidfd is of an earlier process with this pid, that
    // process has ended by now; if it is of a later process, that process has a later start time.
    if now.map_err(io::Error::other)? != Some(process) || is_ready(pidfd.as_fd()) {
        return Err(ended());
    }
    Ok(pidfd)
}

impl Guard {
    /// The guard's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether the guard still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // The guard sends nothing after its start, so "readable" means that it has closed its end.
        !is_ready(self.line.as_fd())
    }

    /// Ends the guard. Afterwards the limits stay as they are, even if the manager ends.
    pub fn dismiss(mut self) {
        // An error means that the guard has ended already.
        let _ = self.line.write_all(b"x");
    }
}

/// Runs a guard process. The program's `main` calls this if it was started with [`ARGUMENT`].
/// `args`: the arguments after that one. Returns the exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    take_name();
    let done = match args.first() {
        Some(word) if word == WAIT_ARGUMENT => wait_for_manager(),
        Some(_) => return 2,
        None => leave_family(),
    };
    u8::from(done.is_err())
}

/// Starts a session and the process that stays, and returns, so that the calling process ends. Then
/// no other process can wait for the one that stays.
fn leave_family() -> io::Result<()> {
    setsid()?;
    sys::close_on_exec_from(3)?;
    // This path means the running program, even if its file has been replaced.
    Command::new("/proc/self/exe")
        .arg0(NAME)
        .args([ARGUMENT, WAIT_ARGUMENT])
        .stdin(Stdio::inherit())
        .spawn()?;
    Ok(())
}

/// Runs in the process that stays: waits until the manager ends or dismisses the guard.
fn wait_for_manager() -> io::Result<()> {
    let (line, group, manager) = (io::stdin(), io::stdout(), io::stderr());
    let (line, manager) = (line.as_fd(), manager.as_fd());
    let group = group.as_fd().try_clone_to_owned()?;
    let mark = OwnershipXattr::of(&group).ok_or(io::ErrorKind::InvalidData)?;
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
        // If the manager sent the byte that dismisses the guard and then ended, the byte counts.
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

/// Lifts the limits of a dead manager's cgroup, if the cgroup still has the manager's ownership
/// xattr (`mark`).
fn lift(group: &OwnedFd, mark: &OwnershipXattr) -> io::Result<()> {
    let end = Instant::now() + LOCK_TIMEOUT;
    while flock(group, FlockOperation::NonBlockingLockExclusive).is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    // The manager has removed the ownership xattr itself, or another manager has claimed the
    // cgroup.
    if OwnershipXattr::of(group).is_none_or(|now| now != *mark) {
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

/// Returns whether a descriptor is readable now.
fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut fds, Some(&now)), Ok(1..))
}
