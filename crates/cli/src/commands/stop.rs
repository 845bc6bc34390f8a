//! Signals that end a command, such as that of ^C.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::system::start::{TWICE, ending_signals};

use crate::failure::Failure;

/// Returns a flag that the first SIGINT, SIGTERM or SIGHUP sets, unless that signal is ignored.
/// Another of these signals, at least [`TWICE`] later, ends the process.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let [flag, is_last] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (mut heard, tell) = UnixStream::pair().map_err(|error| refused(0, &error))?;
    for signal in ending_signals() {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&is_last))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .and_then(|_| signal_hook::low_level::pipe::register(signal, tell.try_clone()?))
            .map_err(|error| refused(signal, &error))?;
    }
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let begun = thread.spawn(move || {
        // A byte arrives for each signal. (The other end is never closed while the process lives.)
        if heard.read(&mut [0]).is_ok() {
            std::thread::sleep(TWICE);
            is_last.store(true, Ordering::Relaxed);
        }
    });
    begun.map_err(|error| {
        let what = format!("cannot begin a thread: {error}");
        Failure::new(what, "is the limit of processes (ulimit -u) high enough?")
    })?;
    Ok(flag)
}

/// Returns a flag that each SIGINT, SIGTERM or SIGHUP sets, unless the signal is ignored; no signal
/// ends the process. For commands that must clean up and then end soon after the flag is set.
pub(super) fn gentle_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| refused(signal, &error))?;
    }
    Ok(flag)
}

/// Waits for the time `how_long`, or until `stop` is set.
pub(super) fn pause(stop: &AtomicBool, how_long: Duration) {
    /// Maximum delay of the effect of ^C.
    const PULSE: Duration = Duration::from_millis(50);
    let end = Instant::now() + how_long;
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(PULSE));
    }
}

fn refused(signal: i32, error: &std::io::Error) -> Failure {
    let what = format!("cannot handle signal {signal}: {error}");
    Failure::new(what, "this should not happen; please report it")
}
