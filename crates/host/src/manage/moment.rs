//! Points in time as values.
//!
//! Invariant: this module reads no clock. A manager reads the clock when a step of its work begins
//! ([`super::driver::Driver::now`]), and passes the moment to the code that decides.
//! `xtask/src/tidy/clock.rs` lists the files that may read the clock.

use std::time::Duration;

use engine::Millis;

/// A point in time, stored as the time since the manager's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(Duration);

impl Moment {
    /// The manager's start. A deadline with this value has passed, so its work is pending.
    pub(super) const BEGIN: Moment = Moment(Duration::ZERO);

    /// Returns the point in time `elapsed` after the manager's start.
    pub(super) const fn new(elapsed: Duration) -> Moment {
        Moment(elapsed)
    }

    /// Returns the duration since `earlier`; zero if `earlier` is in the future.
    pub(super) const fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the point in time `span` after this one.
    pub(super) const fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }

    /// Returns the time in milliseconds, the unit of the engine and the age table. Rounds down.
    pub(super) fn millis(self) -> Millis {
        Millis::from(self.0)
    }
}

/// Returns the point in time `ms` milliseconds after the manager's start.
#[cfg(test)]
pub(super) const fn at_ms(ms: u64) -> Moment {
    Moment(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_never_negative() {
        let (early, late) = (at_ms(3), at_ms(5));
        assert_eq!(late.since(early), Duration::from_millis(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.after(Duration::from_millis(2)), late);
        // Callers use the maximum duration for "never".
        assert!(late.after(Duration::MAX) > late);
        assert_eq!(
            Moment::new(Duration::from_micros(2999)).millis(),
            Millis(2),
            "rounded down, as the age table does"
        );
    }
}
