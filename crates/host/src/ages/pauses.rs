//! How long clearing may hold the mmap_lock of an address space.
//!
//! Invariant: a program that had page faults since the last scan waits for a clearing no longer
//! than the user allows, as far as that can be predicted.
//!
//! While the kernel clears a process's bits, it holds the mmap_lock, which the process needs for
//! page faults, mmap and munmap; nothing else waits for this lock. A program without page faults
//! does not wait at all. It may begin to have faults, though, so its lock is held only for a small
//! part of the time: no greater part of such faults has to wait.

use std::time::Duration;

use super::space::ActivityCounters;

/// Longest wait of a program with page faults, unless the user sets another or [`WAIT_PART`] allows
/// more.
const WAIT_MAX: Duration = Duration::from_millis(5);
/// The longest wait may be the time between two scans divided by this. If scans are rare, a longer
/// wait costs the program no greater part of its time.
const WAIT_PART: u32 = 500;
/// The lock of a program without page faults may be held for the interval divided by this.
const QUIET_PART: u32 = 50;
/// Time for which an idle process's lock may always be held: enough to clear 3 GiB, while nothing
/// waits.
const ASLEEP_MIN: Duration = Duration::from_millis(50);
/// Upper bound of all times that are computed from the interval.
const QUIET_MAX: Duration = Duration::from_millis(250);

/// Bounds of the time for which a clearing may hold a process's mmap_lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauses {
    /// Longest wait that the user allows; `None` if the user has set none.
    max_wait: Option<Duration>,
    interval: Duration,
}

impl Pauses {
    /// Creates bounds from the longest wait that the user allows and the time between two scans.
    #[must_use]
    pub fn new(max_wait: Option<Duration>, interval: Duration) -> Pauses {
        Pauses { max_wait, interval }
    }

    /// Returns the regular time between two scans.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the bound for a program with page faults. `apart`: time since the program's last
    /// scan; limits cause additional scans within an interval.
    fn busy(&self, apart: Duration) -> Duration {
        let part = (self.interval.min(apart) / WAIT_PART).min(QUIET_MAX);
        self.max_wait.unwrap_or(part.max(WAIT_MAX))
    }

    /// Returns the bound for an idle process, whose bits are cleared at ever longer intervals.
    pub(super) fn idle(&self) -> Duration {
        (self.interval / QUIET_PART).clamp(ASLEEP_MIN, QUIET_MAX)
    }

    /// Returns the bound for a process. `before` and `now`: its activity counters at the last scan
    /// and now; `apart`: the time between. A process that is seen for the first time has the bound
    /// for programs with page faults.
    pub(super) fn at_most(
        &self,
        before: ActivityCounters,
        now: ActivityCounters,
        apart: Duration,
    ) -> Duration {
        let busy = self.busy(apart);
        let is_new = before == ActivityCounters::default();
        if is_new || before.faults != now.faults {
            busy
        } else {
            (self.interval / QUIET_PART).min(QUIET_MAX).max(busy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(faults: u64) -> ActivityCounters {
        ActivityCounters {
            cpu: Duration::from_secs(1),
            resident: 1000,
            faults,
            majors: 0,
            moved: 0,
        }
    }

    #[test]
    fn a_clearing_may_take_longer_only_without_faults() {
        let ms = Duration::from_millis;
        let apart = Duration::from_secs(10);
        let pauses = Pauses::new(Some(ms(5)), apart);
        assert_eq!(pauses.at_most(after(7), after(7), apart), ms(200));
        assert_eq!(pauses.at_most(after(7), after(8), apart), ms(5));
        assert_eq!(
            pauses.at_most(ActivityCounters::default(), after(7), apart),
            ms(5),
            "seen for the first time"
        );
    }

    #[test]
    fn a_rare_scan_may_take_longer() {
        let ms = Duration::from_millis;
        let busy = |interval| Pauses::new(None, interval).at_most(after(7), after(8), interval);
        assert_eq!(busy(ms(1000)), ms(5));
        assert_eq!(busy(ms(20_000)), ms(40));
        assert_eq!(busy(ms(3_600_000)), ms(250));
        // Additional scans for a limit are frequent, so the wait stays short.
        let often = Pauses::new(None, ms(20_000));
        assert_eq!(often.at_most(after(7), after(8), ms(200)), ms(5));
    }

    #[test]
    fn the_part_is_bounded_on_both_sides() {
        let ms = Duration::from_millis;
        let long = Pauses::new(Some(ms(5)), Duration::from_secs(3600));
        let apart = Duration::from_secs(3600);
        assert_eq!(long.at_most(after(7), after(7), apart), ms(250));
        let short = Pauses::new(Some(ms(5)), ms(100));
        assert_eq!(short.at_most(after(7), after(7), apart), ms(5));
    }
}
