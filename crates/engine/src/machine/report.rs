//! Working-set reports of a machine's tenants.
//! spec: workingset-report.md 3, 5, 6.

use super::Machine;
use crate::memcg::MemcgId;
use crate::units::{Millis, Swappiness};
use crate::vmscan::{Memory, ScanReason};
use crate::workingset_report::{Aggregation, Bins, PageAge, Report, ReportState};
use alloc::vec::Vec;

/// Settings of the reports, the reports of each tenant, and the tenants of which waiting readers
/// (pollers) must be woken.
#[derive(Debug, Default)]
pub struct Reports {
    bins: Bins,
    mode: Aggregation,
    states: Vec<ReportState>,
    notified: Vec<MemcgId>,
}

impl Reports {
    /// Sets the bin edges for later refreshes; stored reports keep their bins (I8).
    pub fn set_bins(&mut self, bins: Bins) {
        self.bins = bins;
    }

    /// Sets how the pages of a generation that spans a bin edge are divided.
    pub const fn set_aggregation(&mut self, mode: Aggregation) {
        self.mode = mode;
    }

    /// Returns the report state of a tenant.
    pub fn state(&mut self, id: MemcgId) -> &mut ReportState {
        if self.states.len() <= id.index() {
            self.states
                .resize_with(id.index() + 1, ReportState::default);
        }
        &mut self.states[id.index()]
    }

    pub(super) fn forget(&mut self, id: MemcgId) {
        *self.state(id) = ReportState::default();
    }

    /// Returns the tenants whose pollers must be woken because of pressure since the last call.
    pub fn take_notified(&mut self) -> Vec<MemcgId> {
        core::mem::take(&mut self.notified)
    }
}

impl Machine {
    /// Returns the settings and states of the reports.
    pub const fn reports_mut(&mut self) -> &mut Reports {
        &mut self.reports
    }

    /// Refreshes the report of `id` and all memcgs below it, if the refresh interval has passed.
    /// Memcgs whose youngest generation is older than the interval are aged first. Returns false
    /// when reporting is disabled.
    pub fn refresh<M: Memory>(&mut self, id: MemcgId, now: Millis, memory: &mut M) -> bool {
        let state = self.reports.state(id);
        if !state.is_enabled() || !state.is_due(now) {
            return state.is_enabled();
        }
        let interval = state.refresh_interval();
        let bins = self.reports.bins.clone();
        let report = self.collect((id, interval), &bins, now, memory);
        self.reports.state(id).store(report);
        true
    }

    /// Creates a report of `id` and all memcgs below it. Memcgs whose youngest generation is older
    /// than `interval` are aged first.
    pub(super) fn collect<M: Memory>(
        &mut self,
        (id, interval): (MemcgId, Millis),
        bins: &Bins,
        now: Millis,
        memory: &mut M,
    ) -> Report {
        let subtree = self.tree.pre_order(id);
        for &member in &subtree {
            self.age_if_older(member, interval, now, memory);
        }
        let (mut page_age, mut timestamp) = (PageAge::new(bins), now);
        for &member in &subtree {
            // Under the classic policy there are no ages to report.
            let Some(lru) = self.lruvec(member).multi_gen() else {
                continue;
            };
            page_age.add(lru, now, self.reports.mode);
            timestamp = timestamp.min(lru.birth(lru.max_seq()));
        }
        Report {
            page_age,
            timestamp,
        }
    }

    fn age_if_older<M: Memory>(
        &mut self,
        id: MemcgId,
        interval: Millis,
        now: Millis,
        memory: &mut M,
    ) {
        let lruvec = self.lruvec_mut(id);
        let Some(lru) = lruvec.multi_gen() else {
            return;
        };
        let (seq, birth) = (lru.max_seq(), lru.birth(lru.max_seq()));
        if birth.after(interval) >= now || !lruvec.begin_walk(seq) {
            return;
        }
        memory.walk_all(id, lruvec);
        // Anon pages age even if they could not be swapped out.
        lruvec.inc_max_seq(seq, Swappiness::default(), now);
    }

    /// Refreshes the reports whose interval has passed, as the kernel's aging thread does. Returns
    /// the time of the next refresh; `None` if no tenant has an interval.
    pub fn aging_thread<M: Memory>(&mut self, now: Millis, memory: &mut M) -> Option<Millis> {
        let all = self.tree.pre_order(MemcgId::ROOT);
        for &id in &all {
            self.refresh(id, now, memory);
        }
        all.iter()
            .filter_map(|&id| self.reports.state(id).next_refresh())
            .min()
    }

    /// Notes that a reclaim of `target` has reached `priority`. If that counts as pressure, the
    /// pollers of `target` must be woken.
    pub(super) fn note_pressure(
        &mut self,
        target: MemcgId,
        (priority, reason): (u32, ScanReason),
        now: Millis,
    ) {
        self.guests.note_pressure(target, (priority, reason), now);
        let notify = self.reports.state(target).try_report(priority, reason, now);
        if notify && !self.reports.notified.contains(&target) {
            self.reports.notified.push(target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MachineConfig, ReclaimRequest};
    use super::*;
    use crate::folio::{FolioId, FolioType};
    use crate::lruvec::{FaultKind, Lruvec};
    use crate::units::Pages;
    use crate::vmscan::PageOut;

    struct Untouched;

    impl Memory for Untouched {
        fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

        fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
            outcome.extend(batch.iter().map(|_| PageOut::Stored));
        }
    }

    fn tenants(births: &[u64]) -> (Machine, Vec<MemcgId>) {
        let mut machine = Machine::new(MachineConfig::default(), Millis(births[0]));
        let ids: Vec<MemcgId> = births
            .iter()
            .map(|&b| machine.create(MemcgId::ROOT, Millis(b)))
            .collect();
        for &id in &ids {
            machine.lruvec_mut(id).ensure(100);
            for page in (0..100).map(FolioId) {
                machine.fault_in(id, page, FolioType::Anon, FaultKind::FirstTouch, true);
            }
        }
        let edges = [1000, 5000, 20_000].map(Millis);
        machine
            .reports_mut()
            .set_bins(Bins::new(&edges).expect("increasing"));
        (machine, ids)
    }

    fn enable(machine: &mut Machine, id: MemcgId, interval: u64) {
        machine
            .reports_mut()
            .state(id)
            .set_refresh_interval(Millis(interval));
    }

    fn max_seq(machine: &Machine, id: MemcgId) -> u64 {
        machine.lruvec(id).lru_gen().max_seq()
    }

    fn timestamp(machine: &mut Machine, id: MemcgId) -> Option<Millis> {
        machine
            .reports_mut()
            .state(id)
            .report()
            .map(|report| report.timestamp)
    }

    /// A report is refreshed, and its memcg aged, at most once in each refresh interval.
    /// spec: workingset-report.md 11, test 6.
    #[test]
    fn refreshed_at_most_once_an_interval() {
        let (mut machine, ids) = tenants(&[0]);
        assert!(
            !machine.refresh(ids[0], Millis(10_000), &mut Untouched),
            "disabled"
        );
        enable(&mut machine, ids[0], 5000);
        for (now, expect) in [(10_000, 4), (11_000, 4), (16_000, 5)] {
            assert!(machine.refresh(ids[0], Millis(now), &mut Untouched));
            assert_eq!(max_seq(&machine, ids[0]), expect, "at {now}");
            let report = machine
                .reports_mut()
                .state(ids[0])
                .report()
                .expect("enabled")
                .clone();
            assert_eq!(report.page_age.total(FolioType::Anon), Pages(100));
        }
        enable(&mut machine, ids[0], 0);
        assert_eq!(timestamp(&mut machine, ids[0]), None);
    }

    /// A memcg whose youngest generation is younger than the refresh interval is not aged for a
    /// report.
    /// spec: workingset-report.md 11, test 7.
    #[test]
    fn young_memcgs_are_not_aged() {
        let (mut machine, ids) = tenants(&[9000]);
        enable(&mut machine, ids[0], 5000);
        assert!(machine.refresh(ids[0], Millis(10_000), &mut Untouched));
        assert_eq!(max_seq(&machine, ids[0]), 3);
        assert_eq!(timestamp(&mut machine, ids[0]), Some(Millis(9000)));
    }

    /// workingset-report.md 11, test 8; and I9: the parent's report contains its children's pages.
    #[test]
    fn a_report_is_as_old_as_its_stalest_member() {
        let (mut machine, _) = tenants(&[10, 20]);
        enable(&mut machine, MemcgId::ROOT, 5000);
        assert!(machine.refresh(MemcgId::ROOT, Millis(100), &mut Untouched));
        assert_eq!(timestamp(&mut machine, MemcgId::ROOT), Some(Millis(10)));
        let report = machine
            .reports_mut()
            .state(MemcgId::ROOT)
            .report()
            .expect("enabled");
        assert_eq!(report.page_age.total(FolioType::Anon), Pages(200));
    }

    /// With intervals of 1 s and 3 s the aging thread refreshes each report at its own times.
    /// spec: workingset-report.md 11, test 12.
    #[test]
    fn aging_thread() {
        let (mut machine, ids) = tenants(&[0, 0]);
        assert_eq!(
            machine.aging_thread(Millis(500), &mut Untouched),
            None,
            "no tenant has an interval"
        );
        enable(&mut machine, ids[0], 1000);
        enable(&mut machine, ids[1], 3000);
        let (mut now, mut refreshed) = (Millis(0), [Vec::new(), Vec::new()]);
        while now <= Millis(9000) {
            let before = [max_seq(&machine, ids[0]), max_seq(&machine, ids[1])];
            let next = machine.aging_thread(now, &mut Untouched).expect("enabled");
            for n in 0..2 {
                if max_seq(&machine, ids[n]) > before[n] {
                    refreshed[n].push(now.0);
                }
            }
            // One millisecond later than the next refresh, so that the refresh is pending.
            now = next.max(now).after(Millis(1));
        }
        assert_eq!(refreshed[0].len(), 8, "{refreshed:?}");
        assert_eq!(refreshed[1].len(), 2, "{refreshed:?}");
    }

    #[test]
    fn reclaim_notifies_pollers_of_pressure() {
        let (mut machine, ids) = tenants(&[0]);
        enable(&mut machine, MemcgId::ROOT, 1000);
        enable(&mut machine, ids[0], 1000);
        for id in [MemcgId::ROOT, ids[0]] {
            machine
                .reports_mut()
                .state(id)
                .set_report_threshold(Millis(2000));
        }
        let mut request = ReclaimRequest::new(ScanReason::Proactive, Pages(1000), Millis(5000));
        machine.reclaim_root(request, &mut Untouched);
        assert!(
            machine.reports_mut().take_notified().is_empty(),
            "proactive"
        );
        request.reason = ScanReason::Direct;
        machine.reclaim_subtree(ids[0], request, &mut Untouched);
        machine.reclaim_root(request, &mut Untouched);
        assert_eq!(
            machine.reports_mut().take_notified(),
            [ids[0], MemcgId::ROOT]
        );
        assert!(machine.reports_mut().take_notified().is_empty());
    }
}
