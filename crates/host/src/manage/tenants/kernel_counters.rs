//! The kernel's counters of its own reclaim, as last read.
//!
//! Invariant: only the rise of a counter means something, never its value.

use std::path::PathBuf;
use std::time::Duration;

use super::super::moment::Moment;

/// Time between two readings of the counters.
const EVERY: Duration = Duration::from_millis(100);
/// Divisor: reading takes at most `1 / SHARE` of the time of a processor.
const SHARE: u32 = 50;
/// Time after which a group's memory.stat has all that was counted before. The kernel sums the
/// counters of its processors every two seconds.
const SUMMED: Duration = Duration::from_secs(3);

/// A counter of the kernel, as last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter(Option<u64>);

impl Counter {
    /// Notes the present value. Returns whether the counter has risen since the last value. A value
    /// that could not be read (`None`) is skipped.
    pub(super) fn has_risen(&mut self, now: Option<u64>) -> bool {
        let Some(now) = now else {
            return false;
        };
        self.0.replace(now).is_some_and(|before| now > before)
    }
}

/// The kernel's counters of reclaim from one tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TenantCounters {
    /// Whether clients of the tenant's report can be notified of pressure.
    pub(super) can_notify: bool,
    /// Charges that met the limit of the tenant's own group.
    pub(super) at_limit: Counter,
    /// Pages of the tenant that reclaim scanned (version 2).
    pub(super) scanned: Counter,
    /// Whether `scanned` was read once: kernels before Linux 5.19 have no such counter.
    pub(super) is_scanned_read: bool,
}

impl TenantCounters {
    /// Returns counters that have not been read yet.
    pub(super) fn new(can_notify: bool) -> TenantCounters {
        TenantCounters {
            can_notify,
            ..TenantCounters::default()
        }
    }
}

/// When the counters are read next, and those of the whole host.
#[derive(Debug, Default)]
pub(super) struct KernelReclaim {
    /// When the counters are read next; `None` while no client can be notified.
    pub(super) next: Option<Moment>,
    /// Pages that reclaim of the whole host scanned.
    scanned: Counter,
    /// Until when the counters of groups may lack what the host's last reclaim scanned.
    summed_by: Option<Moment>,
    /// Groups above the tree's root that are no tenants, with the charges that met their limits.
    pub(super) above: Vec<(PathBuf, Counter)>,
}

impl KernelReclaim {
    /// Returns counters whose first reading is pending. `above`: the groups above the tree's root.
    pub(super) fn new(now: Moment, above: Vec<(PathBuf, Counter)>) -> KernelReclaim {
        KernelReclaim {
            next: Some(now),
            above,
            ..KernelReclaim::default()
        }
    }

    /// Records the host's counter: how many pages reclaim of the whole host has scanned. Returns
    /// whether the counter has risen since the last reading.
    pub(super) fn has_scanned(&mut self, now: Moment, scanned: Option<u64>) -> bool {
        let has_risen = self.scanned.has_risen(scanned);
        if has_risen {
            self.summed_by = Some(now.after(SUMMED));
        }
        has_risen
    }

    /// Whether the counters of groups have all that the host's last reclaim scanned.
    pub(super) fn is_summed(&self, now: Moment) -> bool {
        self.summed_by.is_none_or(|by| now >= by)
    }

    /// Sets the time of the next reading, after one that began now and took `took`. Returns the
    /// time until then.
    pub(super) fn plan(&mut self, now: Moment, took: Duration) -> Duration {
        let pause = EVERY.max(took * SHARE);
        self.next = Some(now.after(pause));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::moment::at_ms;
    use super::*;

    #[test]
    fn readings_take_a_fiftieth_of_a_processor() {
        let mut reclaim = KernelReclaim::new(at_ms(5), Vec::new());
        let plan = [1, 2, 40].map(|ms| reclaim.plan(at_ms(10), Duration::from_millis(ms)));
        assert_eq!(plan.map(|pause| pause.as_millis()), [100, 100, 2000]);
        assert_eq!(reclaim.next, Some(at_ms(2010)));
    }

    /// The kernel adds what reclaim scanned to the counters of groups up to two seconds later.
    #[test]
    fn groups_are_read_for_three_seconds_after_the_hosts_reclaim() {
        let mut reclaim = KernelReclaim::new(at_ms(0), Vec::new());
        assert!(!reclaim.has_scanned(at_ms(0), Some(7)) && reclaim.is_summed(at_ms(0)));
        assert!(reclaim.has_scanned(at_ms(100), Some(8)));
        assert!(!reclaim.has_scanned(at_ms(200), Some(8)));
        assert!(!reclaim.is_summed(at_ms(3099)) && reclaim.is_summed(at_ms(3100)));
    }

    #[test]
    fn a_counter_rises_from_its_first_value() {
        let mut counter = Counter::default();
        let steps = [
            (None, false),
            (Some(5), false),
            (Some(5), false),
            (Some(6), true),
            (Some(6), false),
            // It could not be read for a moment.
            (None, false),
            (Some(9), true),
            // A group of the same name was made anew.
            (Some(0), false),
            (Some(1), true),
        ];
        for (now, has_risen) in steps {
            assert_eq!(counter.has_risen(now), has_risen, "{now:?}");
        }
    }
}
