//! The process and user at the other end of a connection, as the kernel reports them.
//!
//! Invariant: a peer in another pid namespace is refused, even if it is root: a container may share
//! the directory of sockets, and the pids that its root sends do not name our processes. If the
//! kernel has SO_PEERPIDFD (Linux 6.5), the process is checked by its pidfd, so that a later
//! process with the same pid is not taken for the peer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use host::system::{Proc, start};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CapabilitySet, capabilities};

/// The peer's process and user at the time when the peer called connect(2) or listen(2).
#[derive(Debug)]
pub(crate) struct Peer {
    /// Pid of the peer; 0 if the peer has no pid in our pid namespace.
    pub(super) pid: u32,
    pub(super) uid: u32,
    process: Process,
}

/// How the peer's process is identified.
#[derive(Debug)]
enum Process {
    /// By a pidfd from the kernel.
    Pidfd(OwnedFd),
    /// The process has ended.
    Gone,
    /// By its pid alone: the kernel has no SO_PEERPIDFD.
    Pid,
}

impl Peer {
    /// Returns a made-up peer for a test.
    #[cfg(test)]
    pub(super) fn known(pid: u32, uid: u32) -> Peer {
        let process = Process::Pid;
        Peer { pid, uid, process }
    }

    pub(crate) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let (pid, uid) = start::peer(stream.as_fd())?;
        let process = match getsockopt(stream, sockopt::PeerPidfd) {
            Ok(process) => Process::Pidfd(process),
            Err(Errno::ENOPROTOOPT | Errno::ENOSYS) => Process::Pid,
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => Process::Gone,
            Err(errno) => return Err(errno.into()),
        };
        Ok(Peer { pid, uid, process })
    }

    /// Whether the peer may send requests to a manager of the user `owner`: that user may, and root
    /// may if [`Tracer`] allows.
    pub(crate) fn may_ask(&self, owner: u32) -> bool {
        let is_user = self.uid == owner && owner != 0;
        is_user || self.uid == 0 && Tracer::this_process().allows(self.pid)
    }

    /// Whether the peer lives in our pid namespace, so that the pids it sends name our processes.
    /// Call this after all other checks by the peer's pid: if it returns true, the pid was the
    /// peer's all the time.
    pub(super) fn is_in_our_pid_namespace(&self) -> bool {
        match &self.process {
            Process::Pidfd(process) => has_only_this_pid(process, self.pid),
            Process::Gone => false,
            Process::Pid => shares_our_pids(self.pid) || has_this_pid_here(self.pid),
        }
    }
}

/// Whether the process with this pid is in our pid namespace, by opening a pidfd. For kernels
/// without SO_PEERPIDFD if /proc/PID/status is hidden (mount option hidepid, ProtectProc= of a
/// unit).
fn has_this_pid_here(pid: u32) -> bool {
    let named = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = named.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    matches!(process, Some(Ok(process)) if has_only_this_pid(&process, pid))
}

/// Whether the process has this pid and no other: it lives, and is in the pid namespace of our
/// /proc. We may always read the kernel's information about our own descriptor.
fn has_only_this_pid(process: &OwnedFd, pid: u32) -> bool {
    let about = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let about = std::fs::read_to_string(about).unwrap_or_default();
    let numbers = about.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // The kernel shows 0 for a process that is not in the pid namespace of the mounted /proc, and
    // -1 for one that has ended.
    pid != 0 && numbers.is_some_and(|numbers| numbers.trim() == pid.to_string())
}

/// Rule for which processes of root may use this manager: those that may trace other processes as
/// we may. Root of a container without CAP_SYS_PTRACE may read nothing of the host's processes.
/// Without this rule such a root could request their ages, and page them out.
pub(crate) struct Tracer {
    /// Whether we may trace processes of other users; if not, every process of root is allowed.
    traces: bool,
    /// Inode of our user namespace. A process that creates another user namespace has all
    /// capabilities in that namespace, but not here.
    user_namespace: Option<u64>,
}

impl Tracer {
    /// Returns the rule for this process; it does not change while the process serves.
    pub(crate) fn this_process() -> Tracer {
        Tracer {
            traces: may_trace(None),
            user_namespace: user_namespace_of("self"),
        }
    }

    /// Whether root's process or thread with this pid may send requests. Pid 0 stands for a client
    /// that has no pid in our pid namespace. Takes about 4 us.
    pub(crate) fn allows(&self, client: u32) -> bool {
        let named = i32::try_from(client).ok().and_then(Pid::from_raw);
        let traces = |named| {
            may_trace(Some(named)) && user_namespace_of(&client.to_string()) == self.user_namespace
        };
        !self.traces || named.is_some_and(traces)
    }
}

/// Whether a thread (`None`: the calling one) has CAP_SYS_PTRACE; false if the thread has ended.
fn may_trace(thread: Option<Pid>) -> bool {
    let sets = capabilities(thread);
    sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE))
}

/// Returns the inode of a thread's user namespace; `None` if the kernel has no user namespaces.
fn user_namespace_of(thread: &str) -> Option<u64> {
    let found = std::fs::metadata(format!("/proc/{thread}/ns/user"));
    Some(found.ok()?.ino())
}

/// Whether a process is in the pid namespace of our /proc, so that a pid names the same process for
/// it and for us.
pub(crate) fn shares_our_pids(pid: u32) -> bool {
    let status = Proc::system().and_then(|proc| proc.status(pid));
    let numbers = status.ok().flatten().map(|status| status.ns_pids.len());
    // A kernel without pid namespaces shows none.
    pid != 0 && matches!(numbers, Some(0 | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_peer_is_in_our_pid_namespace() {
        let us = std::process::id();
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let peer = Peer::of(&ours).expect("it is connected");
        assert!(peer.is_in_our_pid_namespace() && peer.pid == us);
        let other = Peer {
            pid: us + 1,
            ..peer
        };
        assert!(
            !other.is_in_our_pid_namespace(),
            "the descriptor is of another process"
        );
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("it is there");
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("it lives");
        let pid = child.id();
        assert!(has_only_this_pid(&process, pid) && has_this_pid_here(pid));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(!has_only_this_pid(&process, pid));
    }

    /// (e2e test `serve_requested` checks the same from end to end, for a peer with fewer rights.)
    #[test]
    fn root_with_the_same_rights_may_send_requests() {
        let us = std::process::id();
        assert!(Tracer::this_process().allows(us));
        let traces = Tracer {
            traces: true,
            user_namespace: user_namespace_of("self"),
        };
        assert!(!traces.allows(0));
        let elsewhere = Tracer {
            traces: true,
            user_namespace: Some(1),
        };
        assert!(!elsewhere.allows(us));
        // If we may not trace either, there is nothing to protect from root.
        let poor = Tracer {
            traces: false,
            ..elsewhere
        };
        assert!(poor.allows(0));
    }
}
