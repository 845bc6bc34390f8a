//! Decides when a thread that uses the engine lets waiting requests run.
//!
//! Invariant: a slice does some work before it ends, so all work is completed at last, however many
//! requests there are. Here the clock only ends slices; it decides nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A signal to the thread that uses the engine, which checks it between two pieces of work.
#[derive(Clone, Debug, Default)]
pub struct Wakeup(Arc<AtomicBool>);

impl Wakeup {
    /// Sets the signal: a request waits.
    pub fn ring(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Clears the signal: the request is being served.
    pub fn silence(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the signal is set.
    fn is_signalled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// When a time slice ends: at a time, or earlier at a wakeup. `None`: never.
#[derive(Clone, Debug)]
pub(super) struct Pause(Option<(Wakeup, Instant)>);

impl Pause {
    /// Returns the end of a slice that never ends.
    pub(super) const fn never() -> Pause {
        Pause(None)
    }

    /// Returns the end of a slice that lasts for `time`, or until a wakeup before.
    pub(super) fn after(wakeup: &Wakeup, time: Duration) -> Pause {
        Pause(Some((wakeup.clone(), Instant::now() + time)))
    }

    /// Returns the time until the slice ends, wakeups aside; the maximum if it never ends.
    pub(super) fn left(&self) -> Duration {
        let until = self.0.as_ref().map(|(_, until)| until);
        until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    /// Whether the slice has ended.
    pub(super) fn is_due(&self) -> bool {
        let Some((wakeup, until)) = &self.0 else {
            return false;
        };
        wakeup.is_signalled() || Instant::now() >= *until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wakeup_or_the_clock_ends_a_slice() {
        let wakeup = Wakeup::default();
        assert!(!Pause::never().is_due() && Pause::never().left() == Duration::MAX);
        let long = Pause::after(&wakeup, Duration::from_secs(1000));
        assert!(!long.is_due() && long.left() > Duration::from_secs(900));
        wakeup.clone().ring();
        assert!(long.is_due() && !Pause::never().is_due());
        wakeup.silence();
        assert!(!long.is_due());
        assert!(Pause::after(&wakeup, Duration::ZERO).is_due());
    }
}
