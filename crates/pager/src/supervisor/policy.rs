//! When to age, when to evict by age, when to look at the mappings.

use super::Supervisor;
use super::room::unprotected;
use crate::options::Policy;
use crate::target::link::Lost;
use crate::target::reclaim::Cause;
use engine::{Millis, ScanReason};

/// What is due next, in the manager's milliseconds.
pub(crate) struct Clock {
    age_at: Millis,
    watch_at: Option<Millis>,
    evict_at: Option<Millis>,
    regions_at: Millis,
    older: Option<Millis>,
    every: Millis,
    age_every: Millis,
}

/// What a look at the clock says is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// An aging pass that moves everything aside.
    Watch,
    /// An eviction by age.
    Evict(Millis),
    /// Nothing.
    Nothing,
}

const REGIONS_EVERY: u64 = 1000;

impl Clock {
    pub(crate) fn new(policy: &Policy) -> Clock {
        let (every, age_every) = (Millis(policy.every.0), Millis(policy.age_every.0));
        let older = policy.evict_older_than.map(|m| Millis(m.0));
        let evict_at = older.map(|_| every);
        Clock {
            age_at: age_every,
            watch_at: older.map(|o| Millis(every.0.saturating_sub(o.0))),
            evict_at,
            regions_at: Millis(0),
            older,
            every,
            age_every,
        }
    }

    /// Mappings are read when something will be done with them, at least each second, and at each
    /// look while a limit is near.
    pub(crate) fn wants_regions(&mut self, now: Millis, near: bool) -> bool {
        let due = now >= self.regions_at || near;
        if due {
            self.regions_at = Millis(now.0 + REGIONS_EVERY);
        }
        due
    }

    /// What is due for the whole family; call once a look.
    pub(super) fn due(&mut self, now: Millis) -> Due {
        if let (Some(older), Some(evict_at)) = (self.older, self.evict_at) {
            if self.watch_at.is_some_and(|at| now >= at) {
                // One pass as long before the eviction as pages must be idle: what comes back in
                // between is in use, and costs its fault only once in each period.
                self.watch_at = None;
                self.evict_at = Some(evict_at.max(now.after(older)));
                return Due::Watch;
            }
            if now >= evict_at && self.watch_at.is_none() {
                let next = now.after(self.every);
                self.evict_at = Some(next);
                self.watch_at = Some(Millis(next.0.saturating_sub(older.0)));
                return Due::Evict(older);
            }
            return Due::Nothing;
        }
        if now >= self.age_at {
            self.age_at = now.after(self.age_every);
            return Due::Watch;
        }
        Due::Nothing
    }
}

impl Supervisor {
    pub(super) fn run_policy(&mut self, i: usize, now: Millis) -> Result<(), Lost> {
        match self.due {
            Due::Nothing => Ok(()),
            Due::Watch => self.targets[i].age(now, true).map(|_| ()),
            Due::Evict(older) => {
                self.targets[i].age(now, false)?;
                self.evict_older(i, older, now)
            }
        }
    }

    fn evict_older(&mut self, i: usize, older: Millis, now: Millis) -> Result<(), Lost> {
        let most = self.unprotected().min(self.swap_room());
        let t = &mut self.targets[i];
        let words = format!("not touched for {} ms (--evict-older-than)", older.0);
        let dry = self.dry.as_mut();
        let mut cause = Cause {
            reason: ScanReason::Proactive,
            words: &words,
            dry,
        };
        t.shrink_older((older, most), now, &mut cause)?;
        Ok(())
    }

    /// Pages of the family that `--memory-min` and `--memory-low` do not protect.
    fn unprotected(&self) -> u64 {
        let resident: u64 = self.targets.iter().map(|t| t.sizes().anon).sum();
        let bytes = |limit| {
            // `max` protects everything.
            self.bytes_of(limit, resident).unwrap_or(u64::MAX)
        };
        let limits = &self.options.limits;
        unprotected(resident, bytes(limits.min), bytes(limits.low), host_short())
    }
}

/// Whether the host has nothing else left: less than a sixteenth of its memory is available.
fn host_short() -> bool {
    let (total, available) = crate::target::proc::host_memory();
    available < total / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watch_before_each_eviction() {
        let policy = Policy {
            evict_older_than: Some(crate::options::Millis(10_000)),
            ..Policy::default()
        };
        let mut clock = Clock::new(&policy);
        let mut seen = Vec::new();
        for s in 0..130 {
            let due = clock.due(Millis(s * 1000));
            if due != Due::Nothing {
                seen.push((s, due == Due::Watch));
            }
        }
        let expected = [
            (30, true),
            (40, false),
            (70, true),
            (80, false),
            (110, true),
            (120, false),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_age_longer_than_the_period_still_waits_that_long() {
        let policy = Policy {
            evict_older_than: Some(crate::options::Millis(50)),
            every: crate::options::Millis(20),
            ..Policy::default()
        };
        let mut clock = Clock::new(&policy);
        let mut watched = None;
        for ms in 0..1000 {
            match clock.due(Millis(ms)) {
                Due::Watch => watched = Some(ms),
                Due::Evict(_) => assert!(ms - watched.expect("a watch first") >= 50),
                Due::Nothing => {}
            }
        }
        assert!(watched.is_some());
    }

    #[test]
    fn without_a_policy_there_is_only_aging() {
        let mut clock = Clock::new(&Policy::default());
        let passes = (0..100)
            .filter(|s| clock.due(Millis(s * 1000)) == Due::Watch)
            .count();
        assert_eq!(passes, 9);
    }
}
