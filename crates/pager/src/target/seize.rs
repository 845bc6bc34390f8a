//! Stopping a thread that a keeper may have stopped just now: for a fraction of a second it is that
//! keeper's tracee (`halt` of the keeper), and nobody else can trace it.

use super::proc;
use std::io;
use std::time::{Duration, Instant};
use uffd::ptrace::Stopped;

/// For how long a keeper's hold is waited for; none is that long.
const KEEPER_LIMIT: Duration = Duration::from_secs(1);

/// Seizes a thread and waits until it stops, at most `limit` once nobody else traces it.
///
/// # Errors
/// As [`Stopped::seize`].
pub(crate) fn seize(tid: i32, limit: Duration) -> io::Result<Stopped> {
    let until = Instant::now() + KEEPER_LIMIT;
    loop {
        match Stopped::seize(tid, limit) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                if !proc::tracer(tid).is_some_and(proc::is_keeper) || Instant::now() > until {
                    return Err(e);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}
