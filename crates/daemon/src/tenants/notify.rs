//! Messages to a service manager (sd_notify(3)): the tree is ready, `serve` reloads or ends, the
//! loop is alive.
//!
//! Invariant: without a service manager nothing is sent, and nothing fails.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager, if there is one.
#[derive(Debug)]
pub(super) struct Notify {
    /// Time between two watchdog messages, half of the longest that is allowed; `None` without a
    /// watchdog.
    every: Option<Duration>,
    last: Instant,
}

impl Notify {
    pub(super) fn new() -> Notify {
        let allowed = sd_notify::watchdog_enabled();
        Notify {
            every: allowed.map(|time| time / 2),
            last: Instant::now(),
        }
    }

    /// Reports that the tree is ready.
    pub(super) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// Reports that the configuration is read again; `ready` follows.
    pub(super) fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// Reports that the end has begun.
    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Sends a watchdog message if it is time; returns the longest wait until the next call.
    pub(super) fn alive(&mut self) -> Duration {
        let Some(every) = self.every else {
            return Duration::MAX;
        };
        if self.last.elapsed() >= every / 2 {
            self.last = Instant::now();
            tell(&[NotifyState::Watchdog]);
        }
        every / 2
    }
}

/// Sends messages; a failure is ignored.
fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
