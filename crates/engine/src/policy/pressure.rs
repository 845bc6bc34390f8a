//! The policy `pressure`: pages out pages above a limit, which is lowered while tasks wait for
//! memory less than allowed, and raised when they wait more. The rule is that of senpai
//! (facebookincubator/senpai; docs/policies.md).
//!
//! Invariant: each period moves the limit once, down by at most `probe` or up by at most
//! `back-off`, in proportion to the square of the ratio of the time waited and the time allowed.
//! The limit is never below `floor`, nor more than `back-off` above the usage.
//!
//! The limit is not memory.max: pages above it are paged out only at the end of a period. So a
//! program that grows, or needs paged-out pages, waits only for these pages, not for reclaim.

use super::pace::Pace;
use super::seen::{Order, Seen};
use super::settings::PressureSettings;
use super::why::Why;
use crate::units::{Bytes, Millis, Pages, scaled};

/// The limit is lowered by the whole `probe` if tasks waited at most 1/10 of the time allowed.
const PROBE_COEFF: u128 = 10;
/// The limit is raised by the whole `back-off` if tasks waited at least 20 times as long as
/// allowed.
const BACK_OFF_COEFF: u128 = 20;
/// Tasks that waited less than 1/1000 of the time allowed count as if they waited that long.
const LEAST_PART: u128 = 1000;
const WHOLE: u128 = 1_000_000;

/// State of the policy `pressure` for one tenant.
#[derive(Clone, Debug)]
pub(super) struct Pressure {
    pub(super) settings: PressureSettings,
    limit: Option<Bytes>,
    pace: Pace,
    /// When the present period began, and for how many microseconds tasks had waited by then;
    /// `None` before the first period.
    since: Option<(Millis, u64)>,
}

impl Pressure {
    pub(super) const fn new(settings: PressureSettings) -> Self {
        Self {
            settings,
            limit: None,
            pace: Pace::new(),
            since: None,
        }
    }

    /// Returns the limit, above which the policy pages out pages; `None` before the first input.
    pub(super) const fn limit(&self) -> Option<Bytes> {
        self.limit
    }

    pub(super) fn decide(&mut self, seen: &Seen<'_>) -> Option<Order> {
        self.pace.note(seen.now);
        let stalled = seen.stalled_us?;
        let usage = seen.usage.bytes();
        let Some((since, before)) = self.since else {
            (self.since, self.limit) = (Some((seen.now, stalled)), Some(usage));
            return None;
        };
        let lasted = seen.now.since(since);
        if !self.pace.is_over(lasted, self.settings.every) {
            return None;
        }
        self.since = Some((seen.now, stalled));
        let waited = stalled.saturating_sub(before);
        // The time allowed is in proportion to the real length of the period, which may end early
        // or late.
        let may_wait = self.settings.stall.0.saturating_mul(1000);
        let may_wait = scaled(may_wait, lasted.0, self.settings.every.0);
        let from = self.limit.filter(|_| !seen.is_dry).unwrap_or(usage);
        let limit = self.moved(from, usage, (waited, may_wait));
        self.limit = Some(limit);
        let over = Bytes(usage.0.saturating_sub(limit.0)).pages();
        seen.oldest(over).map(|older_than| Order {
            older_than,
            most: over,
            cache: Pages(0),
            why: Why::Pressure {
                limit,
                waited_us: waited,
                may_wait_us: may_wait,
                lasted,
            },
        })
    }

    /// Returns the limit after a period that began with the limit `from`, in which tasks `waited`
    /// for memory and were allowed to wait `may_wait`, both in microseconds.
    fn moved(&self, from: Bytes, usage: Bytes, (waited, may_wait): (u64, u64)) -> Bytes {
        let PressureSettings {
            probe,
            back_off,
            floor,
            ..
        } = self.settings;
        let (waited, may_wait) = (u128::from(waited), u128::from(may_wait).max(1));
        let highest = usage.0.saturating_add(scaled(usage.0, back_off, WHOLE));
        if waited > may_wait {
            let err = squared_ratio(waited, may_wait * BACK_OFF_COEFF);
            let by = scaled(back_off, err, WHOLE).min(back_off);
            let up = from.0.saturating_add(scaled(from.0, by, WHOLE));
            return Bytes(up.min(highest).max(floor.0));
        }
        let err = squared_ratio(
            may_wait,
            waited.max(may_wait.div_ceil(LEAST_PART)) * PROBE_COEFF,
        );
        let by = scaled(probe, err, WHOLE).min(probe);
        let down = from.0.saturating_sub(scaled(from.0, by, WHOLE));
        Bytes(down.min(highest).max(floor.0))
    }
}

/// Returns `(part / whole)^2`, in millionths.
fn squared_ratio(part: u128, whole: u128) -> u128 {
    let share = part.saturating_mul(WHOLE) / whole.max(1);
    share.saturating_mul(share) / WHOLE
}

#[cfg(test)]
mod tests {
    use super::super::testing::Shown;
    use super::*;
    use crate::units::Pages;

    const START: u64 = 256 << 10;

    fn begun_policy() -> (Pressure, Shown) {
        let mut input = Shown {
            usage: Pages(START),
            stalled_us: Some(5),
            ..Shown::default()
        };
        input.ages.add(Millis(1000), Pages(START));
        let mut policy = Pressure::new(PressureSettings::default());
        assert_eq!(policy.decide(&input.at(0)), None);
        (policy, input)
    }

    /// Returns by how much the limit moves, in millionths, in one period in which tasks waited for
    /// `waited` microseconds.
    fn moved(waited: u64) -> i64 {
        let (mut policy, mut input) = begun_policy();
        input.stalled_us = Some(5 + waited);
        let _ = policy.decide(&input.at(6000));
        let limit = policy.limit().expect("it has begun").0;
        let from = START * 4096;
        (i128::from(limit) - i128::from(from))
            .saturating_mul(1_000_000)
            .div_euclid(i128::from(from))
            .try_into()
            .expect("a share")
    }

    #[test]
    fn the_limit_moves_by_the_square_of_the_time_waited() {
        assert_eq!(moved(0), -10_000, "1% at most");
        assert_eq!(moved(1_000), -10_000);
        assert_eq!(moved(2_000), -2_500);
        assert_eq!(moved(10_000), -100);
        assert_eq!(moved(20_000), 9_999);
        assert_eq!(moved(40_000), 39_999);
        assert_eq!(moved(200_000), 1_000_000, "twice as much at most");
        assert_eq!(moved(u64::MAX / 2), 1_000_000);
    }

    #[test]
    fn pages_above_the_limit_are_ordered_out() {
        let (mut policy, input) = begun_policy();
        assert_eq!(
            policy.decide(&input.at(2000)),
            None,
            "the period has not ended"
        );
        assert_eq!(policy.decide(&input.at(4000)), None);
        let order = policy.decide(&input.at(6000)).expect("1% leaves");
        let over = START * 4096 / 100;
        assert_eq!(order.most, Bytes(over).pages());
        assert_eq!(order.older_than, Millis(1000));
    }

    #[test]
    fn the_limit_stays_above_the_floor_and_close_to_usage() {
        let (mut policy, mut input) = begun_policy();
        for n in 1..1000 {
            policy.decide(&input.at(n * 6000));
        }
        assert_eq!(policy.limit(), Some(Bytes(100 << 20)));
        // When a program shrinks, the limit falls at once to twice the program's usage.
        let (mut policy, _) = begun_policy();
        input.usage = Pages(START / 4);
        policy.decide(&input.at(6000));
        assert_eq!(policy.limit(), Some(Bytes(START * 4096 / 2)));
    }

    /// In a dry run no page is paged out, so no task waits. The limit must not fall without end
    /// because of that.
    #[test]
    fn a_dry_run_reports_only_the_next_step() {
        let (mut policy, mut input) = begun_policy();
        input.is_dry = true;
        for n in 1..10 {
            policy.decide(&input.at(n * 6000));
        }
        let from = START * 4096;
        assert_eq!(policy.limit(), Some(Bytes(from - from / 100)));
    }

    /// Regression: a host's scans are up to 50 ms less than 6 s apart. So every second scan ended
    /// no period, and the periods lasted 12 s.
    #[test]
    fn each_scan_of_a_host_moves_the_limit() {
        let (mut policy, input) = begun_policy();
        let mut before = policy.limit();
        for at in [5_975, 11_950, 17_925] {
            let _ = policy.decide(&input.at(at));
            assert!(policy.limit() < before, "{at}");
            before = policy.limit();
        }
    }

    #[test]
    fn nothing_is_ordered_where_the_waiting_time_is_unknown() {
        let mut policy = Pressure::new(PressureSettings::default());
        let input = Shown {
            usage: Pages(START),
            ..Shown::default()
        };
        for n in 0..10 {
            assert_eq!(policy.decide(&input.at(n * 6000)), None);
        }
    }
}
