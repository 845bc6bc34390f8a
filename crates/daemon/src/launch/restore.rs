//! Records what starting a manager changes in this process, and restores it before this process
//! becomes the program.
//!
//! Invariant: after [`Before::restore`] nothing that execve(2) passes on differs from how it was,
//! except SIGPIPE, which [`start::become_program`] restores.

use std::os::fd::BorrowedFd;

use host::system::start;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, child_subreaper, set_child_subreaper};

/// The state of this process before a manager was started.
#[derive(Debug)]
pub(super) struct Before {
    /// Whether a SIGCHLD was pending.
    child_signal: bool,
    /// The subreaper setting. While it is set, orphans among our descendants become our children,
    /// and the manager must not become our child.
    subreaper: Option<Pid>,
}

impl Before {
    /// Records the state, then changes it so that a manager can be started.
    pub(super) fn note() -> Before {
        let subreaper = child_subreaper().ok().flatten();
        if subreaper.is_some() {
            let _ = set_child_subreaper(None);
        }
        Before {
            child_signal: start::child_signal_waits(),
            subreaper,
        }
    }

    /// Restores the state.
    pub(super) fn restore(self) {
        if !self.child_signal && start::child_signal_waits() {
            start::take_child_signal();
        }
        if self.subreaper.is_some() {
            let _ = set_child_subreaper(self.subreaper);
        }
        let standard: [BorrowedFd<'_>; 3] = [
            rustix::stdio::stdin(),
            rustix::stdio::stdout(),
            rustix::stdio::stderr(),
        ];
        for (fd, was_closed) in standard.into_iter().zip(start::found().closed) {
            if was_closed {
                // This descriptor is /dev/null, opened by Rust's runtime; execve(2) closes it.
                let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
            }
        }
    }
}
