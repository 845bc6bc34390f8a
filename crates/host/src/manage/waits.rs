//! Measures how long the tasks of one target have waited for memory.
//!
//! Invariant: the source is chosen once, because two sources would count differently. It is the
//! kernel's pressure stall information of a cgroup of the target. If there is none, the source is
//! an estimate: `min(refaults, faults that had to read) * cost`, where `cost` is that of a refault
//! here ([`crate::price`]).

use std::time::{Duration, Instant};

use crate::hard_limit::HardLimit;
use crate::price::SwapInCost;
use crate::system::pressure::{Pressure, parse};
use crate::system::{Group, Groups, Proc};

/// Where the waiting time comes from.
#[derive(Debug)]
enum Source {
    /// Pressure that the kernel reports for our cgroup.
    HardLimit(HardLimit),
    /// Pressure that the kernel reports for the target's group.
    Group(Groups, Group),
    /// An estimate from refaults.
    Estimate(Estimate),
}

/// Measures how long the tasks of one target have waited for memory.
#[derive(Debug)]
pub(super) struct Waits(Source);

/// An estimate of the waiting time: its value at the last update, and the counts at that time.
#[derive(Debug)]
struct Estimate {
    /// Number of refaults.
    came_back: u64,
    /// Number of faults that had to read.
    faults: u64,
    /// Time of the last update.
    at: Instant,
    cost: SwapInCost,
    /// Total waiting time.
    total: Duration,
}

impl Waits {
    /// Chooses the source: pressure of our cgroup; if there is none, of the target's group;
    /// otherwise the estimate.
    pub(super) fn new(hard_limit: Option<&HardLimit>, group: Option<(&Groups, &Group)>) -> Waits {
        let hard_limit = hard_limit.filter(|hard_limit| of_hard_limit(hard_limit).is_some());
        let has_pressure =
            |(groups, group): &(&Groups, &Group)| groups.pressure(group).ok().flatten().is_some();
        Waits(match (hard_limit, group.filter(has_pressure)) {
            (Some(hard_limit), _) => Source::HardLimit(hard_limit.clone()),
            (None, Some((groups, group))) => Source::Group(groups.clone(), group.clone()),
            (None, None) => Source::Estimate(Estimate {
                came_back: 0,
                faults: 0,
                at: Instant::now(),
                cost: SwapInCost::default(),
                total: Duration::ZERO,
            }),
        })
    }

    /// Returns the total waiting time until now, in microseconds; `None` if the kernel's figure
    /// cannot be read. Total numbers until now: `came_back`, refaults; `faults`, faults that had to
    /// read.
    pub(super) fn total_us(&mut self, proc: &Proc, came_back: u64, faults: u64) -> Option<u64> {
        let some_us = |pressure: Pressure| pressure.some.total_us;
        match &mut self.0 {
            Source::HardLimit(hard_limit) => of_hard_limit(hard_limit).map(some_us),
            Source::Group(groups, group) => groups.pressure(group).ok().flatten().map(some_us),
            Source::Estimate(estimate) => Some(estimate.update(proc, came_back, faults)),
        }
    }
}

/// Returns the pressure that the kernel reports for our cgroup; `None` if it reports none.
fn of_hard_limit(hard_limit: &HardLimit) -> Option<Pressure> {
    parse(&hard_limit.file("memory.pressure").ok()?)
}

impl Estimate {
    /// Adds the waiting time since the last update. Returns the total in microseconds.
    fn update(&mut self, proc: &Proc, came_back: u64, faults: u64) -> u64 {
        let more = came_back.saturating_sub(self.came_back);
        // A page that was read ahead causes no wait.
        let more = more.min(faults.saturating_sub(self.faults));
        (self.came_back, self.faults) = (came_back, faults);
        if more > 0 {
            let waited = self
                .cost
                .get(proc)
                .saturating_mul(u32::try_from(more).unwrap_or(u32::MAX));
            // The added wait is at most the time passed since the last update.
            self.total += waited.min(self.at.elapsed());
        }
        self.at = Instant::now();
        u64::try_from(self.total.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_read_ahead_cause_no_wait() {
        let mut waits = Waits::new(None, None);
        let Source::Estimate(estimate) = &mut waits.0 else {
            panic!("there is no group");
        };
        estimate.at -= Duration::from_secs(100);
        let proc = Proc::system().expect("/proc");
        let cost = estimate.cost.get(&proc);
        let total = waits.total_us(&proc, 1000, 10).expect("an estimate");
        assert_eq!(u128::from(total), (cost * 10).as_micros());
        // Without refaults nothing is added, however many faults had to read.
        assert_eq!(waits.total_us(&proc, 1000, 500), Some(total));
        let Source::Estimate(estimate) = &waits.0 else {
            panic!("it is what it was");
        };
        assert_eq!((estimate.came_back, estimate.faults), (1000, 500));
    }
}
