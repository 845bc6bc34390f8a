//! Measures how long the tasks of one target have waited for memory.
//!
//! Invariant: the source is chosen once, because two sources would count differently. It is the
//! kernel's pressure stall information of a cgroup of the target. If there is none, the source is
//! an estimate: `min(refaults, faults that had to read) * cost`, where `cost` is that of a refault
//! here ([`crate::price`]).

use std::time::Duration;

use super::moment::Moment;
use super::stall::Stalls;
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

/// An estimate of the waiting time, and the counts at the last update.
#[derive(Debug)]
struct Estimate {
    /// Number of refaults.
    came_back: u64,
    /// Number of faults that had to read.
    faults: u64,
    /// Number of refaults that tasks waited for.
    waits: u64,
    cost: SwapInCost,
    stalls: Stalls,
}

impl Waits {
    /// Chooses the source: pressure of our cgroup; if there is none, of the target's group;
    /// otherwise the estimate.
    pub(super) fn new(
        hard_limit: Option<&HardLimit>,
        group: Option<(&Groups, &Group)>,
        now: Moment,
    ) -> Waits {
        let hard_limit = hard_limit.filter(|hard_limit| of_hard_limit(hard_limit).is_some());
        let has_pressure =
            |(groups, group): &(&Groups, &Group)| groups.pressure(group).ok().flatten().is_some();
        Waits(match (hard_limit, group.filter(has_pressure)) {
            (Some(hard_limit), _) => Source::HardLimit(hard_limit.clone()),
            (None, Some((groups, group))) => Source::Group(groups.clone(), group.clone()),
            (None, None) => Source::Estimate(Estimate {
                came_back: 0,
                faults: 0,
                waits: 0,
                cost: SwapInCost::default(),
                stalls: Stalls::new(0, now),
            }),
        })
    }

    /// Returns the total waiting time until now, in microseconds; `None` if the kernel's figure
    /// cannot be read. Total numbers until now: `came_back`, refaults; `faults`, faults that had to
    /// read.
    pub(super) fn total_us(
        &mut self,
        proc: &Proc,
        (came_back, faults): (u64, u64),
        now: Moment,
    ) -> Option<u64> {
        let some_us = |pressure: Pressure| pressure.some.total_us;
        match &mut self.0 {
            Source::HardLimit(hard_limit) => of_hard_limit(hard_limit).map(some_us),
            Source::Group(groups, group) => groups.pressure(group).ok().flatten().map(some_us),
            Source::Estimate(estimate) => {
                let pressure = estimate.update((came_back, faults), |cost| cost.get(proc), now);
                Some(some_us(pressure))
            }
        }
    }
}

/// Returns the pressure that the kernel reports for our cgroup; `None` if it reports none.
fn of_hard_limit(hard_limit: &HardLimit) -> Option<Pressure> {
    parse(&hard_limit.file("memory.pressure").ok()?)
}

impl Estimate {
    /// Adds the waiting time since the last update. `price` measures the cost of a refault. This
    /// function calls `price` only if there were refaults.
    fn update(
        &mut self,
        (came_back, faults): (u64, u64),
        price: impl FnOnce(&mut SwapInCost) -> Duration,
        now: Moment,
    ) -> Pressure {
        let more = came_back.saturating_sub(self.came_back);
        // A page that was read ahead causes no wait.
        let more = more.min(faults.saturating_sub(self.faults));
        (self.came_back, self.faults) = (came_back, faults);
        self.waits += more;
        let cost = match more {
            0 => Duration::ZERO,
            _ => price(&mut self.cost),
        };
        self.stalls.update(self.waits, cost, now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::moment::at_ms;
    use super::*;

    #[test]
    fn pages_read_ahead_cause_no_wait() {
        let Waits(Source::Estimate(mut estimate)) = Waits::new(None, None, at_ms(0)) else {
            panic!("there is no group");
        };
        let mut total_us = |counts, cost_us, ms| {
            let price = |_: &mut SwapInCost| Duration::from_micros(cost_us);
            estimate.update(counts, price, at_ms(ms)).some.total_us
        };
        // Of 1,000 pages that came back, tasks waited for ten.
        assert_eq!(total_us((1000, 10), 50, 100_000), 500);
        // Without refaults nothing is added, however many faults had to read.
        assert_eq!(total_us((1000, 500), 50, 100_001), 500);
        // Several tasks may wait at once, but no longer than the time that passed.
        assert_eq!(total_us((1100, 600), 50, 100_002), 1500);
    }
}
