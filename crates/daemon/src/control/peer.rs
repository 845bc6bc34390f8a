//! Who is at the other end of a connection, by the kernel.
//!
//! Invariant: whoever counts processes otherwise than we do is a stranger, root too. Abstract names belong to a network namespace, and a
//! container may share the host's: its root is no root here, and its numbers are not our processes'.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use host::system::{Proc, start};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Its process and user, as of the connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// 0 if our pid namespace has no number for it.
    pub(super) pid: u32,
    pub(super) uid: u32,
}

impl Peer {
    pub(super) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let (pid, uid) = start::peer(stream.as_fd())?;
        Ok(Peer { pid, uid })
    }

    /// Whether what it says of processes is of ours. One that has ended is not known to.
    pub(super) fn is_near(self) -> bool {
        counts_as_we_do(self.pid) || has_one_number(self.pid)
    }
}

/// The same where /proc hides whose it is (hidepid, ProtectProc= of a unit): what the kernel says of a descriptor of the process is ours to read.
fn has_one_number(pid: u32) -> bool {
    let named = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = named.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    let about = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let about = std::fs::read_to_string(about).unwrap_or_default();
    let numbers = about.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // All of them in one word is ours alone; 0 stands for a process that the /proc that is mounted does not know.
    numbers.is_some_and(|numbers| numbers.trim() == pid.to_string())
}

/// Whether a process is in the pid namespace of our /proc: the numbers that it has for others are ours.
pub(crate) fn counts_as_we_do(pid: u32) -> bool {
    let status = Proc::system().and_then(|proc| proc.status(pid));
    let numbers = status.ok().flatten().map(|status| status.ns_pids.len());
    // A kernel without pid namespaces tells none.
    pid != 0 && matches!(numbers, Some(0 | 1))
}
