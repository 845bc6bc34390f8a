//! The share of a processor that one kind of work may take.
//!
//! Invariant: after work that took `t`, none begins for `t * WORK_SHARE`.

use std::time::Duration;

use super::moment::Moment;

/// A policy, and writeback, may each take 1 / `WORK_SHARE` of a processor, even if shorter
/// intervals are configured.
const WORK_SHARE: u32 = 10;

/// The end of the present pause between two pieces of work of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkShare {
    paused_until: Moment,
}

impl WorkShare {
    /// Returns the time until work may begin; zero if work may begin now.
    pub(super) const fn pause(self, now: Moment) -> Duration {
        self.paused_until.since(now)
    }

    /// Whether work may begin now.
    pub(super) const fn is_open(self, now: Moment) -> bool {
        self.pause(now).is_zero()
    }

    /// Begins the pause after work that took `took`.
    pub(super) fn note(&mut self, now: Moment, took: Duration) {
        self.stop(now, took.saturating_mul(WORK_SHARE));
    }

    /// Begins a pause of length `time`.
    pub(super) fn stop(&mut self, now: Moment, time: Duration) {
        self.paused_until = now.after(time);
    }
}

#[cfg(test)]
mod tests {
    use super::super::moment::at_ms;
    use super::*;

    #[test]
    fn work_takes_a_tenth_of_a_processor() {
        let mut share = WorkShare::default();
        assert!(share.is_open(at_ms(0)));
        share.note(at_ms(500), Duration::from_millis(20));
        assert_eq!(share.pause(at_ms(500)), Duration::from_millis(200));
        assert!(!share.is_open(at_ms(699)) && share.is_open(at_ms(700)));
        // If the clock jumps ahead, the pause is over.
        assert_eq!(share.pause(at_ms(1 << 40)), Duration::ZERO);
    }
}
