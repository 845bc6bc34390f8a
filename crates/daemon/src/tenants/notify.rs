//! What a service manager is told (sd_notify(3)): that the tree stands, is reloaded, ends, and that the loop goes round.
//!
//! Invariant: without a service manager nothing is told, and nothing fails.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager, if there is one.
#[derive(Debug)]
pub(super) struct Notify {
    /// Between two signs of life: half of what is allowed.
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

    /// The tree stands.
    pub(super) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// The configuration is read once more; `ready` follows.
    pub(super) fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
    }

    /// The end has begun.
    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// The loop goes round: at least so often, if this is called before each wait; how long that may be.
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

/// Who does not listen misses nothing that we could do anything about.
fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
