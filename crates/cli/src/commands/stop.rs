//! ^C and its kin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::system::start::ending_signals;

use crate::failure::Failure;

/// Set by the first SIGINT, SIGTERM or SIGHUP that was not ignored; the second one ends the process.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        let armed = Arc::clone(&flag);
        signal_hook::flag::register_conditional_shutdown(signal, 1, armed)
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|error| refused(signal, &error))?;
    }
    Ok(flag)
}

/// Set by SIGINT, SIGTERM or SIGHUP that was not ignored, however many: for who must put things away before the end, which then
/// must come soon.
pub(super) fn gentle_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| refused(signal, &error))?;
    }
    Ok(flag)
}

/// Waits so long, or until `stop` is set.
pub(super) fn pause(stop: &AtomicBool, how_long: Duration) {
    /// How late ^C may be heard.
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
