//! When whoever has the engine gives way to those who wait for it.
//!
//! Invariant: a slice does something before it gives way, so all that is under way comes to its end however often somebody asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rung by those who wait; whoever has the engine hears it between two steps.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<AtomicBool>);

impl Bell {
    /// Somebody waits.
    pub fn ring(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whoever waits is served now.
    pub fn silence(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_rung(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The end of a slice: a time, or the bell before.
#[derive(Clone, Debug)]
pub(super) struct Pause(Option<(Bell, Instant)>);

impl Pause {
    /// It goes on to the end.
    pub(super) const fn never() -> Pause {
        Pause(None)
    }

    /// After so long at most.
    pub(super) fn after(bell: &Bell, time: Duration) -> Pause {
        Pause(Some((bell.clone(), Instant::now() + time)))
    }

    pub(super) fn is_due(&self) -> bool {
        let Some((bell, until)) = &self.0 else {
            return false;
        };
        bell.is_rung() || Instant::now() >= *until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_or_the_clock_ends_a_slice() {
        let bell = Bell::default();
        assert!(!Pause::never().is_due());
        let long = Pause::after(&bell, Duration::from_secs(1000));
        assert!(!long.is_due());
        bell.clone().ring();
        assert!(long.is_due() && !Pause::never().is_due());
        bell.silence();
        assert!(!long.is_due());
        assert!(Pause::after(&bell, Duration::ZERO).is_due());
    }
}
