//! Estimates memory pressure of a tenant for which the kernel reports none (version 1, or PSI
//! switched off): how long the tenant's tasks waited for pages from swap.
//!
//! Invariant: the estimate is `refaults * cost of a refault`, from the kernel's count of refaults
//! and the cost as measured on this machine. It is never longer than the time passed. Averages
//! decay as the kernel's do (Documentation/accounting/psi.rst).

use std::time::Duration;

use super::moment::Moment;
use crate::system::cgroup::{Version, parse_counter};
use crate::system::pressure::{Pressure, Stall};

/// Time constants of the averages, in seconds.
const WINDOWS: [f64; 3] = [10.0, 60.0, 300.0];

/// Returns how often tasks of a cgroup, and of those below it, waited for a refault, from the text
/// `stat` of its memory.stat: `min(refaults, major faults)`, because pages read ahead cause no
/// wait.
pub(super) fn swap_ins(stat: &[u8], version: Version) -> u64 {
    let of = |name| parse_counter(stat, version, name).unwrap_or(0);
    of("workingset_refault_anon").min(of("pgmajfault"))
}

/// Estimates how long a tenant's tasks have waited for memory.
#[derive(Debug)]
pub(super) struct Stalls {
    /// Total number of waits at the last update.
    seen: u64,
    /// Time of the last update.
    at: Moment,
    /// Total waiting time until the last update.
    total: Duration,
    /// Averages of the share of time waited, in percent, for each of [`WINDOWS`].
    averages: [f64; 3],
}

impl Stalls {
    /// Returns an estimate that begins at `now`; the `swap_ins` waits before that do not count.
    pub(super) fn new(swap_ins: u64, now: Moment) -> Stalls {
        Stalls {
            seen: swap_ins,
            at: now,
            total: Duration::ZERO,
            averages: [0.0; 3],
        }
    }

    /// Updates the estimate. `swap_ins`: total number of waits until `now`; `cost`: the time of one
    /// wait. Returns the pressure.
    pub(super) fn update(&mut self, swap_ins: u64, cost: Duration, now: Moment) -> Pressure {
        let passed = now.since(self.at);
        let more = swap_ins.saturating_sub(self.seen);
        let waited = cost.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX));
        let waited = waited.min(passed);
        (self.seen, self.at) = (swap_ins, now);
        self.total += waited;
        if !passed.is_zero() {
            let share = 100.0 * waited.as_secs_f64() / passed.as_secs_f64();
            for (average, window) in self.averages.iter_mut().zip(WINDOWS) {
                let decay = (-passed.as_secs_f64() / window).exp();
                *average = share + (*average - share) * decay;
            }
        }
        let hundredths = |at: usize| hundredths(self.averages[at]);
        let some = Stall {
            avg10: hundredths(0),
            avg60: hundredths(1),
            avg300: hundredths(2),
            total_us: u64::try_from(self.total.as_micros()).unwrap_or(u64::MAX),
        };
        // `full` is unknown: whether other tasks could run during the waits.
        Pressure { some, full: None }
    }
}

/// Converts percent to hundredths of a percent, as the kernel prints shares.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is 0 to 100"
)]
fn hundredths(percent: f64) -> u32 {
    (percent * 100.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::super::moment::at_ms;
    use super::*;

    #[test]
    fn averages_decay_and_waits_never_exceed_the_time_passed() {
        let begin = at_ms(0);
        let mut stalls = Stalls::new(100, begin);
        let cost = Duration::from_micros(50);
        let second = Duration::from_secs(1);
        // 2,000 waits (beyond the 100 at the beginning) of 50 us in a second are 10% of the time.
        // `avg10` is then `10% * (1 - exp(-1/10))`, 95 hundredths of a percent.
        let one = stalls.update(2100, cost, begin.after(second)).some;
        assert_eq!((one.total_us, one.avg10), (100_000, 95));
        let later = stalls.update(2100, cost, begin.after(second * 11)).some;
        assert_eq!((later.total_us, later.avg10), (100_000, 35));
        assert!(later.avg300 < later.avg60 && later.avg60 < later.avg10);
        // Several tasks wait at the same time: in a second at most one second of waiting counts.
        let full = stalls
            .update(1_000_000, cost, begin.after(second * 12))
            .some;
        assert_eq!(full.total_us, 1_100_000);
        // In a new cgroup the counters begin at 0 again.
        let same = stalls.update(5, cost, begin.after(second * 13)).some;
        assert_eq!(same.total_us, 1_100_000);
    }

    #[test]
    fn read_ahead_causes_no_wait() {
        let text = b"workingset_refault_anon 9\ntotal_workingset_refault_anon 80\ntotal_pgmajfault 10\npgmajfault 3\n";
        assert_eq!(swap_ins(text, Version::V1), 10);
        assert_eq!(swap_ins(text, Version::V2), 3);
        assert_eq!(swap_ins(b"", Version::V2), 0);
    }
}
