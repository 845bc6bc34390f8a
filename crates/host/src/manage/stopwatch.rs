//! Measures the elapsed time of a call.
//!
//! Invariant: callers use the result only as a cost: they report it, or limit the work that
//! follows. Deadlines are moments ([`super::moment`]).

use std::time::{Duration, Instant};

/// Measures the elapsed time of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    pub(super) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Returns the time since the start.
    pub(super) fn took(self) -> Duration {
        self.0.elapsed()
    }
}
