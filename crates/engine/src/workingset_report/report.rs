//! The state of a working-set report: when it is refreshed, and when waiting readers (pollers) are
//! woken (the report is *announced*).
//! spec: workingset-report.md 3, 5, 6, 8.
//!
//! Invariants: between two refreshes at least the refresh interval passes, counted from the
//! report's timestamp (I3); a disabled state stores no report and costs nothing (I5); a report is
//! announced only under pressure, if a threshold is set, not by proactive reclaim, and not before
//! the threshold has passed (I6).

use super::{AgeBin, PageAge};
use crate::lru_gen::DEF_PRIORITY;
use crate::units::{Bytes, Millis};
use crate::vmstat::ScanReason;

/// A report of a memcg and all memcgs below it, with the time for which it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The histogram.
    pub page_age: PageAge,
    /// The earliest of the times at which the memcgs were last aged.
    pub timestamp: Millis,
}

/// The report of one memcg on one memory node, with its intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportState {
    refresh_interval: Millis,
    report_threshold: Millis,
    report: Option<Report>,
}

impl ReportState {
    /// Returns the minimum time between two refreshes; zero if reporting is disabled.
    #[must_use]
    pub const fn refresh_interval(&self) -> Millis {
        self.refresh_interval
    }

    /// Returns the minimum time between two announced reports; zero if no report is announced.
    #[must_use]
    pub const fn report_threshold(&self) -> Millis {
        self.report_threshold
    }

    /// Sets the refresh interval; zero disables reporting and drops the report. Returns whether the
    /// aging thread must be woken: reporting was disabled, or the interval has become shorter.
    pub fn set_refresh_interval(&mut self, interval: Millis) -> bool {
        let old = core::mem::replace(&mut self.refresh_interval, interval);
        if interval == Millis(0) {
            self.report = None;
            return false;
        }
        old == Millis(0) || old > interval
    }

    /// Sets the minimum time between two announced reports; zero to announce none.
    pub const fn set_report_threshold(&mut self, threshold: Millis) {
        self.report_threshold = threshold;
    }

    /// Returns the last report; `None` if reporting is disabled or no report was made yet.
    #[must_use]
    pub const fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Whether reporting is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.refresh_interval > Millis(0)
    }

    /// Returns the time from which on the report may be refreshed; zero if there is no report yet;
    /// `None` if reporting is disabled.
    #[must_use]
    pub fn next_refresh(&self) -> Option<Millis> {
        let last = self.report.as_ref().map(|report| report.timestamp);
        self.is_enabled()
            .then(|| last.map_or(Millis(0), |last| last.after(self.refresh_interval)))
    }

    /// Whether reporting is enabled and the refresh interval has passed.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> bool {
        self.next_refresh().is_some_and(|next| next <= now)
    }

    pub(crate) fn store(&mut self, report: Report) {
        if self.is_enabled() {
            self.report = Some(report);
        }
    }

    /// Whether pollers must be woken, because reclaim has reached `priority`. The threshold counts
    /// from the report's timestamp; so if no reader refreshes the report, its pollers are woken
    /// again and again.
    #[must_use]
    pub fn try_report(&self, priority: u32, reason: ScanReason, now: Millis) -> bool {
        let pressure = priority != DEF_PRIORITY && reason != ScanReason::Proactive;
        if !pressure || self.report_threshold == Millis(0) || !self.is_enabled() {
            return false;
        }
        let last = self
            .report
            .as_ref()
            .map_or(Millis(0), |report| report.timestamp);
        last.after(self.report_threshold) <= now
    }
}

impl AgeBin {
    /// Returns the sum of anon and file pages, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        Bytes(
            self.pages[0]
                .bytes()
                .0
                .saturating_add(self.pages[1].bytes().0),
        )
    }
}

impl PageAge {
    /// Returns the memory that counts as cold for proactive reclaim: the bytes of all bins whose
    /// edge is `age` or above. The bin with the edge `age` also has pages that are younger than
    /// `age`; pass a larger age to exclude that bin.
    #[must_use]
    pub fn cold_bytes(&self, age: Millis) -> Bytes {
        let cold = self
            .bins()
            .iter()
            .filter(|bin| bin.edge.is_none_or(|edge| edge >= age));
        Bytes(cold.map(|bin| bin.bytes().0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::FolioType;
    use crate::units::Pages;
    use crate::workingset_report::Bins;

    fn page_age(bins: &[(u64, u64)], rest: u64) -> PageAge {
        let edges: alloc::vec::Vec<Millis> = bins.iter().map(|&(edge, _)| Millis(edge)).collect();
        let mut report = PageAge::new(&Bins::new(&edges).expect("increasing"));
        let pages = bins.iter().map(|&(_, pages)| pages).chain([rest]);
        for (n, pages) in pages.enumerate() {
            report.add_to(n, FolioType::Anon, Pages(pages));
        }
        report
    }

    /// The bin whose edge is the requested age counts as cold; for a larger age it does not.
    /// spec: workingset-report.md 11, test 15.
    #[test]
    fn cold_bytes_by_label() {
        let gib = (1 << 30) / 4096;
        let report = page_age(&[(10_000, gib), (20_000, 2 * gib)], 3 * gib);
        assert_eq!(report.cold_bytes(Millis(10_000)), Bytes(6 << 30));
        assert_eq!(report.cold_bytes(Millis(10_001)), Bytes(5 << 30));
    }

    fn reported(at: u64) -> ReportState {
        let mut state = ReportState::default();
        assert!(state.set_refresh_interval(Millis(1)));
        state.set_report_threshold(Millis(2000));
        state.store(Report {
            page_age: page_age(&[], 0),
            timestamp: Millis(at),
        });
        state
    }

    /// Pollers are woken once the threshold has passed since the report, but not by proactive
    /// reclaim.
    /// spec: workingset-report.md 11, tests 10 and 11.
    #[test]
    fn reports_under_pressure() {
        let state = reported(1000);
        let direct = |priority, now| state.try_report(priority, ScanReason::Direct, Millis(now));
        assert!(!direct(11, 2999) && direct(11, 3000) && direct(3, 9000));
        assert!(!direct(DEF_PRIORITY, 9000), "no pressure yet");
        assert!(!state.try_report(3, ScanReason::Proactive, Millis(9000)));
        let mut silent = reported(1000);
        silent.set_report_threshold(Millis(0));
        assert!(!silent.try_report(3, ScanReason::Direct, Millis(9000)));
    }

    #[test]
    fn disabling_drops_the_report() {
        let mut state = reported(1000);
        assert!(
            !state.set_refresh_interval(Millis(5)),
            "longer: the aging thread need not be woken"
        );
        assert!(state.set_refresh_interval(Millis(3)), "shorter");
        assert!(!state.set_refresh_interval(Millis(0)));
        assert_eq!((state.report(), state.next_refresh()), (None, None));
        assert!(!state.try_report(3, ScanReason::Direct, Millis(9000)));
    }
}
