//! How long the tasks of one target have waited for memory.
//!
//! Invariant: it is told by one source from beginning to end, as two do not count alike: the kernel's pressure stall information
//! of a group that is the target's own, else an estimate: pages that had left and came back, no more than there were faults that
//! needed reading, times what one costs here ([`crate::price`]).

use std::time::{Duration, Instant};

use crate::price::SwapInCost;
use crate::system::pressure::{Pressure, parse};
use crate::system::{Group, Groups, Proc};
use crate::wall::Wall;

/// Where it is told.
#[derive(Debug)]
enum Source {
    Wall(Wall),
    Group(Groups, Group),
    Estimate(Estimate),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waits(Source);

/// What was counted until now.
#[derive(Debug)]
struct Estimate {
    came_back: u64,
    faults: u64,
    at: Instant,
    cost: SwapInCost,
    total: Duration,
}

impl Waits {
    /// By the best source that there is.
    pub(super) fn new(wall: Option<&Wall>, group: Option<(&Groups, &Group)>) -> Waits {
        let wall = wall.filter(|wall| of_wall(wall).is_some());
        let has_pressure =
            |(groups, group): &(&Groups, &Group)| groups.pressure(group).ok().flatten().is_some();
        Waits(match (wall, group.filter(has_pressure)) {
            (Some(wall), _) => Source::Wall(wall.clone()),
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

    /// Until now, microseconds; `came_back` pages have come back by now, and `faults` needed reading.
    pub(super) fn total_us(&mut self, proc: &Proc, came_back: u64, faults: u64) -> Option<u64> {
        let some_us = |pressure: Pressure| pressure.some.total_us;
        match &mut self.0 {
            Source::Wall(wall) => of_wall(wall).map(some_us),
            Source::Group(groups, group) => groups.pressure(group).ok().flatten().map(some_us),
            Source::Estimate(estimate) => Some(estimate.update(proc, came_back, faults)),
        }
    }
}

fn of_wall(wall: &Wall) -> Option<Pressure> {
    parse(&wall.file("memory.pressure").ok()?)
}

impl Estimate {
    fn update(&mut self, proc: &Proc, came_back: u64, faults: u64) -> u64 {
        let more = came_back.saturating_sub(self.came_back);
        // What is read ahead comes by itself.
        let more = more.min(faults.saturating_sub(self.faults));
        (self.came_back, self.faults) = (came_back, faults);
        if more > 0 {
            let waited = self
                .cost
                .get(proc)
                .saturating_mul(u32::try_from(more).unwrap_or(u32::MAX));
            // Nobody waits for longer than the time that passes.
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
    fn pages_that_are_read_ahead_are_not_waited_for() {
        let mut waits = Waits::new(None, None);
        let Source::Estimate(estimate) = &mut waits.0 else {
            panic!("there is no group");
        };
        estimate.at -= Duration::from_secs(100);
        let proc = Proc::system().expect("/proc");
        let cost = estimate.cost.get(&proc);
        let total = waits.total_us(&proc, 1000, 10).expect("an estimate");
        assert_eq!(u128::from(total), (cost * 10).as_micros());
        // None came back, whatever was read.
        assert_eq!(waits.total_us(&proc, 1000, 500), Some(total));
        let Source::Estimate(estimate) = &waits.0 else {
            panic!("it is what it was");
        };
        assert_eq!((estimate.came_back, estimate.faults), (1000, 500));
    }
}
