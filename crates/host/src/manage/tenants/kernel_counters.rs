//! The kernel's counters of its own reclaim, as last read.
//!
//! Invariant: only the rise of a counter means something, never its value.

use std::path::PathBuf;
use std::time::Instant;

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
    pub(super) next: Option<Instant>,
    /// Pages that reclaim of the whole host scanned.
    pub(super) scanned: Counter,
    /// Until when the counters of groups may lack what the host's last reclaim scanned.
    pub(super) summed_by: Option<Instant>,
    /// Groups above the tree's root that are no tenants, with the charges that met their limits.
    pub(super) above: Vec<(PathBuf, Counter)>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
