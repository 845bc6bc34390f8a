//! Memory pressure of a tenant that the kernel tells none of (version 1, or PSI switched off): how long its tasks waited for
//! pages to come back from swap.
//!
//! Invariant: an estimate, from two figures that were measured: how many pages the kernel says have come back, and what one
//! costs here. It never says that more time was waited than has passed. Averages decay as the kernel's do
//! (Documentation/accounting/psi.rst).

use std::time::{Duration, Instant};

use crate::system::cgroup::Version;
use crate::system::pressure::{Pressure, Stall};
use crate::system::text::flat;

/// What is waited for is averaged over so many seconds.
const WINDOWS: [f64; 3] = [10.0, 60.0, 300.0];

/// How often the tasks of a group, with all below it, have waited for a page of theirs to come back: no more often than the
/// kernel counts major faults, as pages that are read ahead come by themselves.
pub(super) fn swap_ins(stat: &[u8], version: Version) -> u64 {
    let names = match version {
        Version::V1 => ["total_workingset_refault_anon", "total_pgmajfault"],
        Version::V2 => ["workingset_refault_anon", "pgmajfault"],
    };
    let counts = names.map(|name| flat(stat, name).unwrap_or(0));
    counts[0].min(counts[1])
}

/// What a tenant's tasks have waited.
#[derive(Debug)]
pub(super) struct Stalls {
    seen: u64,
    at: Instant,
    total: Duration,
    /// Percent, by [`WINDOWS`].
    averages: [f64; 3],
}

impl Stalls {
    /// From now on; `swap_ins` were before.
    pub(super) fn new(swap_ins: u64, now: Instant) -> Stalls {
        Stalls {
            seen: swap_ins,
            at: now,
            total: Duration::ZERO,
            averages: [0.0; 3],
        }
    }

    /// There were so many by now.
    pub(super) fn update(&mut self, swap_ins: u64, cost: Duration, now: Instant) -> Pressure {
        let passed = now.saturating_duration_since(self.at);
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
        // Whether others could run meanwhile is not known.
        Pressure { some, full: None }
    }
}

/// Of a percent, as the kernel tells shares.
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
    use super::*;

    #[test]
    fn what_is_waited_decays_and_is_no_more_than_what_has_passed() {
        let begin = Instant::now();
        let mut stalls = Stalls::new(100, begin);
        let cost = Duration::from_micros(50);
        let second = Duration::from_secs(1);
        // 2,000 of 50 us in a second: 10%, of which 1 - exp(-1/10) is in the average by then.
        let one = stalls.update(2100, cost, begin + second).some;
        assert_eq!((one.total_us, one.avg10), (100_000, 95));
        let later = stalls.update(2100, cost, begin + second * 11).some;
        assert_eq!((later.total_us, later.avg10), (100_000, 35));
        assert!(later.avg300 < later.avg60 && later.avg60 < later.avg10);
        // Several tasks wait at once: a second is a second.
        let full = stalls.update(1_000_000, cost, begin + second * 12).some;
        assert_eq!(full.total_us, 1_100_000);
        // A group that was made anew counts from nought.
        let same = stalls.update(5, cost, begin + second * 13).some;
        assert_eq!(same.total_us, 1_100_000);
    }

    #[test]
    fn read_ahead_is_not_waited_for() {
        let text = b"workingset_refault_anon 9\ntotal_workingset_refault_anon 80\ntotal_pgmajfault 10\npgmajfault 3\n";
        assert_eq!(swap_ins(text, Version::V1), 10);
        assert_eq!(swap_ins(text, Version::V2), 3);
        assert_eq!(swap_ins(b"", Version::V2), 0);
    }
}
