//! How much processor time clients of HTTP and of the control socket may cost.
//!
//! Invariant: in any period, clients cost at most `period / SHARE + BURST` of processor time
//! ([`SHARE`], [`BURST`]), plus one pass of the server's loop. So during a flood of connections the
//! clients wait longer, and the host loses nothing.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Divisor: clients may use `1 / SHARE` of one processor.
const SHARE: u32 = 20;
/// Most processor time that clients may save up while they send nothing: enough for some hundred
/// pages of the dashboard.
const BURST: Duration = Duration::from_millis(250);

/// Account of the processor time that clients may still cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    unused: Duration,
    /// Processor time that clients used beyond `unused`. No client is served until it is earned
    /// back.
    owed: Duration,
    as_of: Instant,
}

impl Budget {
    /// Returns a budget with all of [`BURST`] unused.
    pub(crate) fn new(now: Instant) -> Budget {
        Budget {
            unused: BURST,
            owed: Duration::ZERO,
            as_of: now,
        }
    }

    /// Charges the processor time `spent` to the clients. Returns when clients may be served again;
    /// `None` if at once.
    pub(crate) fn charge(&mut self, now: Instant, spent: Duration) -> Option<Instant> {
        let earned = now.saturating_duration_since(self.as_of) / SHARE;
        self.as_of = now;
        let paid = earned.min(self.owed);
        self.owed -= paid;
        self.unused = (self.unused + (earned - paid)).min(BURST);
        let covered = spent.min(self.unused);
        self.unused -= covered;
        self.owed += spent - covered;
        (!self.owed.is_zero()).then(|| now + self.owed * SHARE)
    }
}

/// Processor time of this thread since it started.
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
        // The pause has restored the burst.
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
        // While no time passes, the clients earn no budget.
        assert!(budget.charge(now, Duration::ZERO).is_some());
    }
}
