//! The list of locked processes ([`super`]): when each is tried again, and how much time waiting
//! for all of them took.
//!
//! Invariant: the caller passes the current time; nothing here reads a clock. A process is listed
//! from the first missed deadline until a call for it succeeds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{LockedProcess, PAUSE_MAX, PAUSE_MIN, STALL_BUDGET, STALL_WINDOW, Stage};

/// Maximum number of processes in the list. The entry of a process that has ended stays until its
/// process id is tried again.
const PROCESSES_MAX: usize = 4096;

/// Expected time of one try of a locked process: waiting for it, ending the worker, and starting a
/// new worker.
const TRY: Duration = Duration::from_millis(20);

/// A process that missed a deadline.
#[derive(Clone, Copy, Debug)]
struct Stalled {
    /// Time of the first missed deadline.
    since: Instant,
    /// The earliest time of the next try.
    next: Instant,
    /// Time from the last try to the next.
    pause: Duration,
    /// Number of context switches of the process at its last try (`switches` in the parent module).
    switches: u64,
}

/// The locked processes, and the time spent on them.
#[derive(Debug, Default)]
pub(super) struct LockedProcesses {
    /// The locked processes, by process id and kind of call.
    stalled: BTreeMap<(u32, Stage), Stalled>,
    /// Begin of the window of [`STALL_WINDOW`] that [`LockedProcesses::spent`] counts.
    window: Option<Instant>,
    /// Time spent waiting for locked processes in this window.
    spent: Duration,
}

impl LockedProcesses {
    /// Notes that a call missed its deadline after `waited`. `switches`: the process's number of
    /// context switches.
    pub(super) fn note_stall(
        &mut self,
        of: (u32, Stage),
        waited: Duration,
        (now, switches): (Instant, u64),
    ) {
        self.turn_window(now);
        self.spent += waited;
        if self.stalled.len() >= PROCESSES_MAX && !self.stalled.contains_key(&of) {
            self.stalled.pop_first();
        }
        let pause_all = self.pause_for_all();
        let stalled = self.stalled.entry(of).or_insert(Stalled {
            since: now,
            next: now,
            pause: PAUSE_MIN / 2,
            switches,
        });
        stalled.switches = switches;
        stalled.pause = (stalled.pause * 2).min(PAUSE_MAX).max(pause_all);
        stalled.next = now + stalled.pause;
    }

    /// Forgets a process, because a call for it succeeded or its lock was seen free.
    pub(super) fn forget(&mut self, of: (u32, Stage)) {
        self.stalled.remove(&of);
    }

    /// Whether the process is known to be locked at this stage or at [`Stage::Open`].
    pub(super) fn is_locked(&self, (pid, stage): (u32, Stage)) -> bool {
        self.stalled.contains_key(&(pid, stage)) || self.stalled.contains_key(&(pid, Stage::Open))
    }

    /// Whether this process must not be tried now. True if its number of context switches is the
    /// same as at the last try (it has not run), and its pause is not over or [`STALL_BUDGET`] is
    /// used up.
    pub(super) fn is_paused(&mut self, of: (u32, Stage), (now, switches): (Instant, u64)) -> bool {
        let has_budget = self.has_budget(now);
        let waits = |one: &Stalled| one.switches == switches && (now < one.next || !has_budget);
        self.stalled.get(&of).is_some_and(waits)
    }

    /// The shortest pause with which one try of each listed process fits into [`STALL_BUDGET`].
    /// Zero if so few are listed that any pause will do.
    fn pause_for_all(&self) -> Duration {
        let count = u32::try_from(self.stalled.len()).unwrap_or(u32::MAX);
        let tries = u32::try_from(STALL_BUDGET.as_millis() / TRY.as_millis()).unwrap_or(1);
        match count > tries {
            true => STALL_WINDOW * count / tries.max(1),
            false => Duration::ZERO,
        }
    }

    /// Whether less than [`STALL_BUDGET`] was spent in this window.
    pub(super) fn has_budget(&mut self, now: Instant) -> bool {
        self.turn_window(now);
        self.spent < STALL_BUDGET
    }

    /// All locked processes, each once.
    pub(super) fn locked(&self, now: Instant) -> Vec<LockedProcess> {
        let process = |((pid, _), one): (&(u32, Stage), &Stalled)| LockedProcess {
            pid: *pid,
            known_for: now.saturating_duration_since(one.since),
        };
        let mut all: Vec<LockedProcess> = self.stalled.iter().map(process).collect();
        all.dedup_by_key(|one| one.pid);
        all
    }

    /// Begins a new window if the last is over.
    fn turn_window(&mut self, now: Instant) {
        let is_over = |begin: Instant| now.saturating_duration_since(begin) >= STALL_WINDOW;
        if self.window.is_none_or(is_over) {
            (self.window, self.spent) = (Some(now), Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVEN: (u32, Stage) = (7, Stage::Memory);

    #[test]
    fn pauses_double_up_to_a_bound_and_end_with_a_success() {
        let (mut ledger, mut now) = (LockedProcesses::default(), Instant::now());
        let begin = now;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            ledger.note_stall(SEVEN, Duration::from_millis(1), (now, 5));
            let before = now;
            assert!(!ledger.is_paused(SEVEN, (now, 6)), "it has run");
            while ledger.is_paused(SEVEN, (now, 5)) {
                now += Duration::from_millis(50);
            }
            pauses.push((now - before).as_millis());
        }
        let expected = [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000];
        assert_eq!(pauses, expected);
        let known_for = now - begin;
        assert_eq!(ledger.locked(now), [LockedProcess { pid: 7, known_for }]);
        assert!(!ledger.is_paused((8, Stage::Memory), (begin, 5)));
        assert!(!ledger.is_paused((7, Stage::Open), (begin, 5)));
        ledger.forget(SEVEN);
        assert!(!ledger.is_locked(SEVEN) && ledger.locked(now).is_empty());
    }

    #[test]
    fn waiting_is_bounded_in_each_window() {
        let (mut ledger, now) = (LockedProcesses::default(), Instant::now());
        assert!(ledger.has_budget(now));
        for pid in 0..10 {
            ledger.note_stall((pid, Stage::Memory), STALL_BUDGET / 4, (now, 0));
        }
        assert!(!ledger.has_budget(now + STALL_WINDOW / 2));
        assert!(ledger.has_budget(now + STALL_WINDOW));
    }

    /// Regression: each of 100 processes within an exec was tried again in each scan, for 20 ms
    /// each; `report --for 5s` took 7 s.
    #[test]
    fn locked_processes_wait_for_the_next_window_and_each_is_tried() {
        let (mut ledger, begin) = (LockedProcesses::default(), Instant::now());
        let all = (0..100).map(|pid| (pid, Stage::Open));
        for of in all.clone() {
            ledger.note_stall(of, STALL_BUDGET / 10, (begin, 3));
        }
        let later = begin + STALL_WINDOW / 2;
        assert!(all.clone().all(|of| ledger.is_paused(of, (later, 3))));
        assert!(
            !ledger.is_paused((50, Stage::Open), (later, 4)),
            "it has run"
        );
        // In each window the tries use up the time for some processes; in the end all were tried.
        let mut tried = std::collections::BTreeSet::new();
        for second in 0..600 {
            let now = begin + Duration::from_secs(second);
            let mut spent = Duration::ZERO;
            for of in all.clone() {
                if !ledger.is_paused(of, (now, 3)) {
                    ledger.note_stall(of, TRY, (now, 3));
                    tried.insert(of.0);
                    spent += TRY;
                }
            }
            assert!(spent <= STALL_BUDGET + TRY, "{second}: {spent:?}");
        }
        assert_eq!(tried.len(), 100);
    }

    #[test]
    fn the_number_of_remembered_processes_is_bounded() {
        let (mut ledger, now) = (LockedProcesses::default(), Instant::now());
        for pid in 0..10_000 {
            ledger.note_stall((pid, Stage::Memory), Duration::ZERO, (now, 0));
        }
        assert_eq!(ledger.locked(now).len(), PROCESSES_MAX);
        assert!(ledger.is_paused((9_999, Stage::Memory), (now, 0)));
    }
}
