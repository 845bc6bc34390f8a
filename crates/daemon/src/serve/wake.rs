//! Where a manager waits: commands, signals, and the end of the first process.
//!
//! Invariant: one wait; each of these ends it at once. The first SIGINT, SIGTERM or SIGHUP says to let go
//! in order; one that comes [`TWICE`] after it was heard ends us, which the target does not notice. What was ignored when we were
//! started stays so.

use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::system::start::{TWICE, ending_signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::SIGHUP;

use crate::error::Error;

/// What ends a wait.
#[derive(Debug)]
pub(crate) struct Wake {
    signals: UnixStream,
    stop: Arc<AtomicBool>,
    /// The next signal ends us.
    is_last: Arc<AtomicBool>,
    /// SIGHUP came, where that does not end us.
    reload: Arc<AtomicBool>,
    /// The first process, until it has ended.
    first: Option<OwnedFd>,
}

impl Wake {
    /// Signals from now on, and the end of `first`.
    pub(crate) fn new(first: Option<u32>) -> Result<Wake, Error> {
        Wake::make(first, false)
    }

    /// Signals from now on, where SIGHUP says to read the configuration once more.
    pub(crate) fn that_reloads() -> Result<Wake, Error> {
        Wake::make(None, true)
    }

    fn make(first: Option<u32>, reloads: bool) -> Result<Wake, Error> {
        let [stop, is_last, reload] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let signals = listen((&stop, &is_last), reloads.then_some(&reload)).map_err(|error| {
            let what = format!("cannot listen for signals: {error}");
            Error::failed(what, "is the limit of open files (ulimit -n) high enough?")
        })?;
        let first = first.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(Wake {
            signals,
            stop,
            is_last,
            reload,
            // Without (Linux before 5.3), its end is found by the next look.
            first: first.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
        })
    }

    /// Whether a signal said to let go. When it did, the next one does not wait for that.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if is_stopped && !self.is_last.load(Ordering::Relaxed) {
            std::thread::sleep(TWICE);
            self.is_last.store(true, Ordering::Relaxed);
        }
        is_stopped
    }

    /// Whether SIGHUP came since the last call.
    pub(crate) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Whether the first process has ended, or cannot be waited for.
    pub(crate) fn has_first_ended(&self) -> bool {
        self.first.is_none()
    }

    /// Waits at most for `time`.
    pub(crate) fn wait<'a>(&mut self, others: impl Iterator<Item = PollFd<'a>>, time: Duration) {
        let others: Vec<PollFd<'a>> = others.collect();
        let has_ended = {
            let own = [
                Some(&self.signals as &dyn AsBorrowed),
                self.first.as_ref().map(|fd| fd as _),
            ];
            let own = own.into_iter().flatten().map(AsBorrowed::borrowed);
            let own = own.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = own.chain(others).collect();
            // A time that is too long for the kernel is no limit; a signal ends the wait, too.
            let time = Timespec::try_from(time).ok();
            let _ = poll(&mut fds, time.as_ref());
            self.first.is_some() && fds.get(1).is_some_and(|fd| !fd.revents().is_empty())
        };
        if has_ended {
            self.first = None;
        }
        let _ = (&self.signals).read(&mut [0; 16]);
    }
}

/// What can be waited on.
trait AsBorrowed {
    fn borrowed(&self) -> BorrowedFd<'_>;
}

impl<T: std::os::fd::AsFd> AsBorrowed for T {
    fn borrowed(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

fn listen(
    (stop, is_last): (&Arc<AtomicBool>, &Arc<AtomicBool>),
    reload: Option<&Arc<AtomicBool>>,
) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut ending = ending_signals();
    // Who has it say something else is heard, whatever it was before.
    if let Some(reload) = reload {
        ending.retain(|signal| *signal != SIGHUP);
        signal_hook::flag::register(SIGHUP, Arc::clone(reload))?;
        signal_hook::low_level::pipe::register(SIGHUP, theirs.try_clone()?)?;
    }
    for signal in ending {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(is_last))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}
