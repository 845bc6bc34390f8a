//! How long a clearing may hold an address space.
//!
//! Invariant: a program that took page faults since the last look waits no longer than the user allows,
//! as far as can be foreseen. While bits are cleared, the kernel holds the lock that page faults, mmap and
//! munmap take; nothing else waits for it. So a program that takes no faults does not wait at all, however
//! long it is held; that it goes on so is a guess, so even then it is held for a small part of the time
//! only: of the faults that come all the same, no greater part meets a clearing.

use std::time::Duration;

use super::space::Activity;

/// What a program that takes faults waits at most, unless the user says otherwise or [`BUSY_PART`] is longer.
const BUSY: Duration = Duration::from_millis(5);
/// The part of the time between two looks that it waits at most: of a rare look a longer wait is as small a loss.
const BUSY_PART: u32 = 500;
/// The part of the interval for which a program without faults is held at most.
const QUIET_PART: u32 = 50;
/// A sleeping process may be held for at least this long, enough to clear 3 GiB: nobody waits.
const ASLEEP_MIN: Duration = Duration::from_millis(50);
/// Upper bound of every hold that is computed from the interval.
const QUIET_MAX: Duration = Duration::from_millis(250);

/// The bounds of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauses {
    /// What the user allows.
    max_wait: Option<Duration>,
    interval: Duration,
}

impl Pauses {
    /// With what the user allows, and the time between two looks.
    #[must_use]
    pub fn new(max_wait: Option<Duration>, interval: Duration) -> Pauses {
        Pauses { max_wait, interval }
    }

    /// The time between two looks.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// For a program that takes faults, where the last look was so long ago: a limit is looked for more often than each interval.
    fn busy(&self, apart: Duration) -> Duration {
        let part = (self.interval.min(apart) / BUSY_PART).min(QUIET_MAX);
        self.max_wait.unwrap_or(part.max(BUSY))
    }

    /// The bound for a process that does nothing at all, which is tried ever less often.
    pub(super) fn asleep(&self) -> Duration {
        (self.interval / QUIET_PART).clamp(ASLEEP_MIN, QUIET_MAX)
    }

    /// The bound for a process that was like `before` at the last look, `apart` ago, and is like `now`. One that is
    /// seen for the first time may do anything.
    pub(super) fn at_most(&self, before: Activity, now: Activity, apart: Duration) -> Duration {
        let busy = self.busy(apart);
        let is_new = before == Activity::default();
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

    fn after(faults: u64) -> Activity {
        Activity {
            cpu: Duration::from_secs(1),
            resident: 1000,
            faults,
            majors: 0,
            moved: 0,
        }
    }

    #[test]
    fn only_a_program_without_faults_is_held_longer() {
        let ms = Duration::from_millis;
        let apart = Duration::from_secs(10);
        let pauses = Pauses::new(Some(ms(5)), apart);
        assert_eq!(pauses.at_most(after(7), after(7), apart), ms(200));
        assert_eq!(pauses.at_most(after(7), after(8), apart), ms(5));
        assert_eq!(
            pauses.at_most(Activity::default(), after(7), apart),
            ms(5),
            "seen for the first time"
        );
    }

    #[test]
    fn a_rare_look_may_take_longer() {
        let ms = Duration::from_millis;
        let busy = |interval| Pauses::new(None, interval).at_most(after(7), after(8), interval);
        assert_eq!(busy(ms(1000)), ms(5));
        assert_eq!(busy(ms(20_000)), ms(40));
        assert_eq!(busy(ms(3_600_000)), ms(250));
        // Looks that a limit asks for in between are not rare.
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
