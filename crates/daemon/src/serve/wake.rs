//! Where a manager waits: for requests, signals, and the end of the first process.
//!
//! Invariant: there is one wait, and each of these ends it at once. The first SIGINT, SIGTERM or
//! SIGHUP starts an orderly end. Another such signal [`TWICE`] later or more kills the manager,
//! which the target does not notice. Signals that were ignored when the manager started stay
//! ignored.

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
    /// Whether the next signal kills the manager.
    is_last: Arc<AtomicBool>,
    /// Whether SIGHUP came, if SIGHUP reloads the configuration.
    reload: Arc<AtomicBool>,
    /// A pidfd of the first process. `None` if the process has ended, or has no pidfd.
    first: Option<OwnedFd>,
}

impl Wake {
    /// Begins to wait for signals, and for the end of the process `first` if there is one.
    pub(crate) fn new(first: Option<u32>) -> Result<Wake, Error> {
        Wake::make(first, false)
    }

    /// Begins to wait for signals, of which SIGHUP reloads the configuration.
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
            // If there is no pidfd (Linux before 5.3), the next scan finds that the process has
            // ended.
            first: first.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
        })
    }

    /// Whether a signal has started an orderly end. If that was [`TWICE`] ago or more, the next
    /// signal kills the manager.
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

    /// Waits for a signal, the first process's end or one of `others`, for at most `time`.
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
            // No timeout if `time` is too long for the kernel. A signal ends poll(2), too.
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

/// Something with a descriptor to wait for.
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
    // SIGHUP reloads here, also if it was ignored at the start.
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
