//! Pauses of proactive reclaim that become longer while their cause lasts.
//!
//! Invariant: each pause is twice as long as the one before, up to a maximum; after the cause has
//! ended, the first length holds again.

use std::time::Duration;

use super::super::moment::Moment;

/// The present pause, and the length of the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackOff {
    /// The length of the first pause, then the maximum.
    lengths: (Duration, Duration),
    /// End of the present pause; `None` if there is none.
    until: Option<Moment>,
    /// The length of the next pause.
    next: Duration,
}

impl BackOff {
    /// Returns the state without a pause. `lengths`: of the first pause, then the maximum.
    pub(super) const fn new(lengths: (Duration, Duration)) -> BackOff {
        BackOff {
            lengths,
            until: None,
            next: lengths.0,
        }
    }

    /// Returns the rest of the present pause; `None` if there is none.
    pub(super) fn left(&self, now: Moment) -> Option<Duration> {
        let until = self.until.filter(|until| *until > now)?;
        Some(until.since(now))
    }

    /// Begins the next pause, and returns its length.
    pub(super) fn begin(&mut self, now: Moment) -> Duration {
        let length = self.next;
        self.until = Some(now.after(length));
        self.next = (length * 2).min(self.lengths.1);
        length
    }

    /// Whether a pause has ended that no earlier call has reported.
    pub(super) fn has_ended(&mut self, now: Moment) -> bool {
        self.left(now).is_none() && self.until.take().is_some()
    }

    /// Records that the cause has ended.
    pub(super) fn reset(&mut self) {
        (self.until, self.next) = (None, self.lengths.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::moment::at_ms;
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let secs = Duration::from_secs;
        let mut back_off = BackOff::new((secs(1), secs(5)));
        assert!(back_off.left(at_ms(0)).is_none() && !back_off.has_ended(at_ms(0)));
        let mut lengths = [0, 20, 40, 60].map(|at| back_off.begin(at_ms(at * 1000)).as_secs());
        assert_eq!(lengths, [1, 2, 4, 5]);
        assert_eq!(back_off.left(at_ms(61_000)), Some(secs(4)));
        assert!(!back_off.has_ended(at_ms(64_999)));
        assert!(back_off.has_ended(at_ms(65_000)) && !back_off.has_ended(at_ms(65_001)));
        back_off.reset();
        lengths = [70, 80, 90, 100].map(|at| back_off.begin(at_ms(at * 1000)).as_secs());
        assert_eq!(lengths, [1, 2, 4, 5]);
    }
}
