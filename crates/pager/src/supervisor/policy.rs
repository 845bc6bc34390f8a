//! When to age, when to evict by age, when to look at the mappings.

use super::Supervisor;
use super::room::unprotected;
use crate::options::Policy;
use crate::target::aside::Aside;
use crate::target::blocks::LEARN_PASSES;
use crate::target::link::Lost;
use crate::target::reclaim::Cause;
use engine::{Millis, ScanReason};

/// What is due next, in the manager's milliseconds.
pub(crate) struct Clock {
    age_at: Millis,
    watch_at: Option<Millis>,
    /// Before it.
    learn_at: Option<Millis>,
    evict_at: Option<Millis>,
    regions_at: Millis,
    older: Option<Millis>,
    every: Millis,
    age_every: Millis,
}

/// What a look at the clock says is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// An aging pass with nothing to follow it at once.
    Age,
    /// The one before an eviction: it moves everything aside.
    Watch,
    /// One that moves aside what is not known well yet.
    Learn,
    /// An eviction by age.
    Evict(Millis),
    /// Nothing.
    Nothing,
}

const REGIONS_EVERY: u64 = 1000;
/// New memory is learned in passes of its own only where they are so far apart.
const LEARN_EVERY_LEAST: u64 = 1000;

impl Clock {
    pub(crate) fn new(policy: &Policy) -> Clock {
        let (every, age_every) = (Millis(policy.every.0), Millis(policy.age_every.0));
        let older = policy.evict_older_than.map(|m| Millis(m.0));
        let evict_at = older.map(|_| every);
        Clock {
            age_at: age_every,
            watch_at: older.map(|o| Millis(every.0.saturating_sub(o.0))),
            learn_at: older.and_then(|o| learn_at(o, every, every)),
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
                (self.watch_at, self.learn_at) = (None, None);
                self.evict_at = Some(evict_at.max(now.after(older)));
                return Due::Watch;
            }
            if self.learn_at.is_some_and(|at| now >= at) {
                self.learn_at = Some(now.after(older));
                return Due::Learn;
            }
            if now >= evict_at && self.watch_at.is_none() {
                let next = now.after(self.every);
                self.evict_at = Some(next);
                self.watch_at = Some(Millis(next.0.saturating_sub(older.0)));
                self.learn_at = learn_at(older, self.every, next);
                return Due::Evict(older);
            }
            return Due::Nothing;
        }
        if now >= self.age_at {
            self.age_at = now.after(self.age_every);
            return Due::Age;
        }
        Due::Nothing
    }
}

/// When to look at new memory first: it takes a few passes to learn which pages of a chunk are in
/// use, and with one in each period most of three periods would go by before any of it can leave.
fn learn_at(older: Millis, every: Millis, evict_at: Millis) -> Option<Millis> {
    let ahead = older.0.saturating_mul(u64::from(LEARN_PASSES));
    let fits = older.0 >= LEARN_EVERY_LEAST && ahead <= every.0;
    fits.then(|| Millis(evict_at.0.saturating_sub(ahead)))
}

impl Supervisor {
    pub(super) fn run_policy(&mut self, i: usize, now: Millis) -> Result<(), Lost> {
        match self.due {
            Due::Nothing => Ok(()),
            Due::Age => self.targets[i].age(now, Aside::Most).map(|_| ()),
            Due::Watch => self.targets[i].age(now, Aside::All).map(|_| ()),
            Due::Learn => self.targets[i].age(now, Aside::New).map(|_| ()),
            Due::Evict(older) => {
                self.targets[i].age(now, Aside::Nothing)?;
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
                seen.push((s, due));
            }
        }
        let evict = Due::Evict(Millis(10_000));
        let period = [
            (10, Due::Learn),
            (20, Due::Learn),
            (30, Due::Watch),
            (40, evict),
        ];
        let expected: Vec<(u64, Due)> = (0..3)
            .flat_map(|n| period.map(|(s, due)| (n * 40 + s, due)))
            .collect();
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
                Due::Age | Due::Learn | Due::Nothing => {}
            }
        }
        assert!(watched.is_some());
    }

    #[test]
    fn without_a_policy_there_is_only_aging() {
        let mut clock = Clock::new(&Policy::default());
        let passes = (0..100)
            .filter(|s| clock.due(Millis(s * 1000)) == Due::Age)
            .count();
        assert_eq!(passes, 9);
    }
}
