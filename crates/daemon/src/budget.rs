//! How much processor time clients may cost, of HTTP and of the control socket.
//!
//! Invariant: over any time clients cost at most [`SHARE`] of it, [`BURST`], and what one turn of the
//! loop costs. A flood of connections is answered more slowly, and takes nothing from the host.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One part in so many of a processor.
const SHARE: u32 = 20;
/// Processor time that is saved up while nothing comes: some hundred pages.
const BURST: Duration = Duration::from_millis(250);

/// What clients may still cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: Duration,
    /// Cost beyond what was left: paid before anything else is answered.
    owed: Duration,
    at: Instant,
}

impl Budget {
    /// With all of [`BURST`].
    pub(crate) fn new(now: Instant) -> Budget {
        Budget {
            left: BURST,
            owed: Duration::ZERO,
            at: now,
        }
    }

    /// Clients have cost `spent`. Returns when they may cost more again; `None` for at once.
    pub(crate) fn charge(&mut self, now: Instant, spent: Duration) -> Option<Instant> {
        let earned = now.saturating_duration_since(self.at) / SHARE;
        self.at = now;
        let paid = earned.min(self.owed);
        self.owed -= paid;
        self.left = (self.left + (earned - paid)).min(BURST);
        let covered = spent.min(self.left);
        self.left -= covered;
        self.owed += spent - covered;
        (!self.owed.is_zero()).then(|| now + self.owed * SHARE)
    }
}

/// Processor time of this thread since it began.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_costs_a_share_and_a_pause_costs_nothing() {
        let begin = Instant::now();
        let (mut budget, mut now, mut spent) = (Budget::new(begin), begin, Duration::ZERO);
        let turn = Duration::from_millis(3);
        while now < begin + Duration::from_secs(60) {
            (now, spent) = (now + turn, spent + turn);
            if let Some(until) = budget.charge(now, turn) {
                assert!(until > now && until < now + Duration::from_secs(1));
                now = until;
            }
        }
        let most = now.duration_since(begin) / SHARE + BURST + turn;
        assert!(spent <= most && spent > most / 2, "{spent:?} of {most:?}");
        // It has saved up again.
        now += Duration::from_secs(60);
        assert_eq!(budget.charge(now, BURST), None);
        assert!(budget.charge(now, turn).is_some());
    }

    #[test]
    fn one_answer_of_any_cost_is_paid_for() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        let until = budget.charge(now, Duration::from_secs(2));
        let wait = until.expect("it was too much").duration_since(now);
        assert_eq!(wait, (Duration::from_secs(2) - BURST) * SHARE);
        // A clock that stands still earns nothing.
        assert!(budget.charge(now, Duration::ZERO).is_some());
    }
}
