//! What starting a manager changes about this process, put back before it becomes the program.
//!
//! Invariant: after [`Before::restore`] nothing that exec passes on differs from what was found, but SIGPIPE,
//! which the exec itself puts back ([`start::become_program`]).

use std::os::fd::BorrowedFd;

use host::system::start;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, child_subreaper, set_child_subreaper};

/// How this process was before a manager was started.
#[derive(Debug)]
pub(super) struct Before {
    /// A SIGCHLD waited already.
    child_signal: bool,
    /// Orphans below us come to us: a manager must not.
    subreaper: Option<Pid>,
}

impl Before {
    /// Notes it, and makes room for a manager.
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

    /// Puts it back.
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
                // It is /dev/null, opened by Rust's runtime; the exec closes it.
                let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
            }
        }
    }
}
