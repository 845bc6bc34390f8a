//! Further scans for a requested reclaim of an amount (memory.reclaim) that got less.
//!
//! Pages accessed since the last scan stay in memory, because their accessed bits are set. Once all
//! pages of a busy tenant are such pages, reclaim gets nothing more. A kernel clears these bits
//! whenever it ages, and then pages out what was not accessed again. Here only a scan clears them,
//! so the reclaim waits for another scan and goes on.
//!
//! Invariants: a request causes at most [`MOST`] further scans, and none after a scan by which
//! hardly anything was reclaimed; further scans keep the distance of all extra scans.

use std::time::Duration;

use engine::Pages;

/// Most further scans for one request.
const MOST: u32 = 8;
/// Another scan is worth it if this part of the missing pages was reclaimed after the one before.
const WORTH: u64 = 16;
/// Longest time that a request waits for one scan. On a host whose scans are so expensive, the
/// request ends with what it got.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The further scans of one requested reclaim.
#[derive(Debug, Default)]
pub(super) struct FurtherScans {
    /// Number of further scans so far.
    done: u32,
    /// Number of pages that were missing before the last further scan; `None` before the first.
    missing: Option<Pages>,
    /// Number of all scans when the reclaim began to wait for another; `None` if it does not wait.
    waits_since: Option<u64>,
}

impl FurtherScans {
    /// Whether a tenant with so much unprotected memory may yield what makes a further scan worth
    /// it, if `missing` pages are missing.
    pub(super) fn may_yield(missing: Pages, unprotected: Pages) -> bool {
        unprotected.0 > missing.0 / WORTH
    }

    /// Decides whether a reclaim of which `missing` pages are still missing waits for another scan,
    /// which could begin after `wait`. `scans` is the number of all scans so far.
    pub(super) fn begin(&mut self, missing: Pages, wait: Duration, scans: u64) -> bool {
        let is_worth = |before: Pages| before.less(missing).0 >= before.0 / WORTH;
        let begins = missing > Pages(0)
            && wait <= LONGEST_WAIT
            && self.done < MOST
            && self.missing.is_none_or(is_worth);
        if begins {
            self.done += 1;
            self.missing = Some(missing);
            self.waits_since = Some(scans);
        }
        begins
    }

    /// Whether the reclaim waits for a scan.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits_since.is_some()
    }

    /// Ends the wait. Returns whether a scan, of all `scans` so far, has ended meanwhile.
    pub(super) fn end_wait(&mut self, scans: u64) -> bool {
        self.waits_since.take().is_some_and(|since| since < scans)
    }

    /// Whether a scan, of all `scans` so far, has ended since the reclaim began to wait.
    pub(super) fn has_scanned(&self, scans: u64) -> bool {
        self.waits_since.is_some_and(|since| since < scans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_follow_each_other_while_pages_are_reclaimed() {
        let mut scans = FurtherScans::default();
        let mut begins = |missing| scans.begin(Pages(missing), Duration::ZERO, 1);
        assert!(begins(1600), "the first is always worth it");
        assert!(begins(1500), "a sixteenth was reclaimed");
        assert!(!begins(1408), "less than a sixteenth was");
        assert!(begins(1407));
        assert!(!begins(0), "nothing is missing");
        let mut scans = FurtherScans::default();
        let halves = (0..60).map(|n| Pages(1 << 60 >> n));
        let begun = halves.filter(|missing| scans.begin(*missing, Duration::ZERO, 1));
        assert_eq!(begun.count(), MOST as usize);
    }

    #[test]
    fn no_request_waits_for_an_expensive_scan() {
        let mut scans = FurtherScans::default();
        let long = LONGEST_WAIT + Duration::from_millis(1);
        assert!(!scans.begin(Pages(10), long, 4) && !scans.is_waiting());
        assert!(scans.begin(Pages(10), LONGEST_WAIT, 4) && scans.is_waiting());
        assert!(!scans.has_scanned(4) && scans.has_scanned(5));
        assert!(scans.end_wait(5) && !scans.is_waiting());
    }
}
