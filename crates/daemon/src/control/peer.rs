//! Who is at the other end of a connection, by the kernel.
//!
//! Invariant: whoever counts processes otherwise than we do is a stranger, root too. Abstract names belong to a network namespace, and a
//! container may share the host's: its root is no root here, and its numbers are not our processes'.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use host::system::rights::effective;
use host::system::{Proc, start};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Its process and user, as of the connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// 0 if our pid namespace has no number for it.
    pub(super) pid: u32,
    pub(super) uid: u32,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let (pid, uid) = start::peer(stream.as_fd())?;
        Ok(Peer { pid, uid })
    }

    /// Whether it may see what `owner`'s manager tells, and have it act: the user itself, and root that may trace processes, where we may ourselves. (The
    /// story: root of a container without CAP_SYS_PTRACE, which may read nothing of the host's processes, was told their ages and paged them out.)
    pub(crate) fn may_ask(self, owner: u32) -> bool {
        let is_user = self.uid == owner && owner != 0;
        let may_trace_too = || self.has_our_users() && may_trace(&self.pid.to_string());
        is_user || self.uid == 0 && (!may_trace("self") || may_trace_too())
    }

    /// Capabilities count in the user namespace of who has them: whoever makes one has all of them there.
    fn has_our_users(self) -> bool {
        let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user"));
        match (of("self"), of(&self.pid.to_string())) {
            (Ok(ours), Ok(its)) => ours == its,
            // A kernel without user namespaces has no such file of anybody.
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
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

/// Whether a process has CAP_SYS_PTRACE. Of one that has ended, or that our /proc does not know, nothing is known.
fn may_trace(pid: &str) -> bool {
    /// linux/capability.h
    const SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    effective(&status) >> SYS_PTRACE & 1 == 1
}

/// Whether a process is in the pid namespace of our /proc: the numbers that it has for others are ours.
pub(crate) fn counts_as_we_do(pid: u32) -> bool {
    let status = Proc::system().and_then(|proc| proc.status(pid));
    let numbers = status.ok().flatten().map(|status| status.ns_pids.len());
    // A kernel without pid namespaces tells none.
    pid != 0 && matches!(numbers, Some(0 | 1))
}
