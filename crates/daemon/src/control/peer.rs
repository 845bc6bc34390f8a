//! Who is at the other end of a connection, by the kernel.
//!
//! Invariant: a peer in another pid namespace is a stranger, root too: a container may share the
//! directory of sockets, and its root's numbers are not of our processes. Where the kernel has
//! SO_PEERPIDFD (Linux 6.5), the process is checked by its descriptor, so that no later process with
//! its number is taken for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use host::system::{Proc, start};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CapabilitySet, capabilities};

/// Its process and user, as of the connect or the listen.
#[derive(Debug)]
pub(crate) struct Peer {
    /// 0 if our pid namespace has no number for it.
    pub(super) pid: u32,
    pub(super) uid: u32,
    process: Process,
}

/// How a peer's process is known.
#[derive(Debug)]
enum Process {
    /// By a descriptor from the kernel.
    Descriptor(OwnedFd),
    /// It has ended.
    Gone,
    /// By its number alone: the kernel has no SO_PEERPIDFD.
    Number,
}

impl Peer {
    /// A peer that a test makes up.
    #[cfg(test)]
    pub(super) fn known(pid: u32, uid: u32) -> Peer {
        let process = Process::Number;
        Peer { pid, uid, process }
    }

    pub(crate) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let (pid, uid) = start::peer(stream.as_fd())?;
        let process = match getsockopt(stream, sockopt::PeerPidfd) {
            Ok(process) => Process::Descriptor(process),
            Err(Errno::ENOPROTOOPT | Errno::ENOSYS) => Process::Number,
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => Process::Gone,
            Err(errno) => return Err(errno.into()),
        };
        Ok(Peer { pid, uid, process })
    }

    /// Whether it may see what `owner`'s manager tells, and have it act: the user itself, and root as [`Tracer`] says.
    pub(crate) fn may_ask(&self, owner: u32) -> bool {
        let is_user = self.uid == owner && owner != 0;
        is_user || self.uid == 0 && Tracer::this_process().lets(self.pid)
    }

    /// Whether it lives, in our pid namespace: what it says of processes is of ours. To be asked
    /// last: what was found by its number before is then known to be of it.
    pub(super) fn is_near(&self) -> bool {
        match &self.process {
            Process::Descriptor(process) => is_only_number(process, self.pid),
            Process::Gone => false,
            Process::Number => counts_as_we_do(self.pid) || has_one_number(self.pid),
        }
    }
}

/// The same by the number alone. (Not by /proc/PID/status, which may be hidden: hidepid, ProtectProc= of a unit.)
fn has_one_number(pid: u32) -> bool {
    let named = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = named.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    matches!(process, Some(Ok(process)) if is_only_number(&process, pid))
}

/// Whether a process has this number and no other: it lives, and is in the pid namespace of our /proc. What the kernel says of a
/// descriptor of the process is ours to read.
fn is_only_number(process: &OwnedFd, pid: u32) -> bool {
    let about = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let about = std::fs::read_to_string(about).unwrap_or_default();
    let numbers = about.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // 0 stands for a process that the /proc that is mounted does not know, -1 for one that has ended.
    pid != 0 && numbers.is_some_and(|numbers| numbers.trim() == pid.to_string())
}

/// What root is compared with that asks us: it may see and do what it may trace, where we may trace processes of others ourselves. (The story: root
/// of a container without CAP_SYS_PTRACE, which may read nothing of the host's processes, was told their ages and paged them out, by the socket and later by
/// files.)
pub(crate) struct Tracer {
    /// Without, root's number is enough.
    traces: bool,
    /// Our user namespace: whoever makes one has all capabilities there, and they count there alone.
    users: Option<u64>,
}

impl Tracer {
    /// It does not change while we serve.
    pub(crate) fn this_process() -> Tracer {
        Tracer {
            traces: may_trace(None),
            users: users("self"),
        }
    }

    /// Whether root's process, or thread, of this number may ask; 0 stands for one that our pid namespace has no number for. Some 4 us.
    pub(crate) fn lets(&self, asker: u32) -> bool {
        let named = i32::try_from(asker).ok().and_then(Pid::from_raw);
        let traces = |named| may_trace(Some(named)) && users(&asker.to_string()) == self.users;
        !self.traces || named.is_some_and(traces)
    }
}

/// Whether a thread, or this one, has CAP_SYS_PTRACE. Of one that has ended nothing is known.
fn may_trace(thread: Option<Pid>) -> bool {
    let sets = capabilities(thread);
    sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE))
}

/// The user namespace of a thread; none of a kernel that has no such namespaces.
fn users(who: &str) -> Option<u64> {
    let found = std::fs::metadata(format!("/proc/{who}/ns/user"));
    Some(found.ok()?.ino())
}

/// Whether a process is in the pid namespace of our /proc: the numbers that it has for others are ours.
pub(crate) fn counts_as_we_do(pid: u32) -> bool {
    let status = Proc::system().and_then(|proc| proc.status(pid));
    let numbers = status.ok().flatten().map(|status| status.ns_pids.len());
    // A kernel without pid namespaces tells none.
    pid != 0 && matches!(numbers, Some(0 | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_near_while_it_lives() {
        let us = std::process::id();
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let peer = Peer::of(&ours).expect("it is connected");
        assert!(peer.is_near() && peer.pid == us);
        let other = Peer {
            pid: us + 1,
            ..peer
        };
        assert!(!other.is_near(), "the descriptor is of another process");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("it is there");
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("it lives");
        let pid = child.id();
        assert!(is_only_number(&process, pid) && has_one_number(pid));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(!is_only_number(&process, pid));
    }

    /// (End to end with fewer rights: e2e `serve_asked`.)
    #[test]
    fn who_is_as_we_are_may_ask() {
        let us = std::process::id();
        assert!(Tracer::this_process().lets(us));
        let traces = Tracer {
            traces: true,
            users: users("self"),
        };
        assert!(!traces.lets(0));
        let elsewhere = Tracer {
            traces: true,
            users: Some(1),
        };
        assert!(!elsewhere.lets(us));
        // Without the right to trace there is nothing to keep from root.
        let poor = Tracer {
            traces: false,
            ..elsewhere
        };
        assert!(poor.lets(0));
    }
}
