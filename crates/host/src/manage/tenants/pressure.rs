//! Memory pressure of the whole host, or of one NUMA node: if too little memory is available, all
//! tenants are reclaimed from; if only a node lacks memory, only pages of that node are.
//!
//! Invariant: how much is reclaimed, and when, is decided by watermarks
//! ([`super::host_watermarks`]). If the root has a budget, nothing is reclaimed for the host, and
//! clients that wait for pressure are notified instead.

use std::time::Duration;

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::vmscan::PAGES_PER_MEASUREMENT;
use engine::{Limit, Millis, NodeId, Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::moment::Moment;
use super::super::reclaim_totals::ReclaimTotals;
use super::Tenants;
use super::host_watermarks::{EVERY, Watermarks};
use super::under_way::{Lack, ReclaimReason};
use crate::system::{NodeMemory, Proc};

/// The host counts as stalled if some task stalled in at least this share of the last 10 s; in
/// hundredths of a percent.
const STALLED: u32 = 1000;

impl Tenants {
    /// Starts reclaim from tenants for memory that the host lacks. Returns the time until the next
    /// measurement.
    pub(super) fn reclaim_for_host(&mut self, now: Moment) -> Duration {
        let wait = self.pressure.wait(now);
        let Some(wait) = wait.filter(|_| !self.is_reclaiming_for_host()) else {
            return IDLE_MAX;
        };
        if !wait.is_zero() {
            return wait;
        }
        self.pressure.begin(now);
        let proc = self.driver.watch.proc();
        let Ok(memory) = proc.memory() else {
            return EVERY;
        };
        let is_stalled = is_stalled(proc);
        let wanted = self.pressure.wanted(memory.available, is_stalled);
        let lack = match wanted {
            Pages(0) => self.lack_of_nodes(is_stalled, now),
            wanted => Some(Lack {
                node: None,
                available: memory.available,
                wanted,
            }),
        };
        let Some(lack) = lack else {
            return EVERY;
        };
        // A budget of the root already limits the tenants, so nothing is reclaimed then. Clients
        // that wait for pressure are notified all the same.
        let root = self.tenants.get(&MemcgId::ROOT);
        if root.is_none_or(|root| root.limits.max != Limit::Max) {
            self.note_host_pressure();
            return EVERY;
        }
        let wanted = Pages(lack.wanted.0.min(PAGES_PER_MEASUREMENT));
        let why = ReclaimReason::Pressure(Lack { wanted, ..lack });
        self.start_reclaim(MemcgId::ROOT, why);
        Duration::ZERO
    }

    /// Returns what a node lacks; `None` if none lacks memory, if there is only one node, or if the
    /// nodes are measured later.
    fn lack_of_nodes(&mut self, is_stalled: bool, now: Moment) -> Option<Lack> {
        let known = self.driver.watch.ages().nodes();
        if known.all().len() < 2 || !self.pressure.are_nodes_due(now) {
            return None;
        }
        let nodes = self.driver.watch.proc().memory_of_nodes().ok()?;
        // A node whose memory was added after the start has no ages.
        let nodes = nodes.into_iter();
        let nodes: Vec<(usize, NodeMemory)> = nodes
            .filter_map(|memory| Some((known.index(memory.node)?, memory)))
            .collect();
        self.pressure.wanted_of_nodes(&nodes, is_stalled)
    }

    /// Returns the engine's work for the host, as a list of one reclaim.
    pub(super) fn step_for_host(lack: Lack, now: Millis) -> Vec<Ongoing> {
        let request = ReclaimRequest {
            reason: ScanReason::Background,
            nr: lack.wanted,
            swappiness: None,
            now,
        };
        let node = lack.node.map(|(index, _)| NodeId::of_index(index));
        vec![Ongoing::once(MemcgId::ROOT, request).on_node(node)]
    }

    /// Ends a reclaim for the host, and sets the time of the next measurement.
    pub(super) fn end_host_reclaim(&mut self, totals: &ReclaimTotals, lack: Lack) {
        let now = self.now();
        self.pressure.end(now, Pages(totals.evicted), &lack);
        self.note_host_pressure();
        self.say_why_stuck("", totals, now);
        if totals.evicted > 0 {
            let place = match lack.node {
                None => "the host".to_owned(),
                Some((_, number)) => format!("memory node {number}"),
            };
            self.act(format!(
                "paged out {} pages of all tenants: {place} has {} MiB available",
                totals.evicted,
                lack.available >> 20
            ));
        }
    }

    /// Notes that the host lacks memory, for clients of the root's reports and of those of `host`.
    pub(super) fn note_host_pressure(&mut self) {
        let host = self.host.as_ref().map(|host| host.memcg);
        self.reclaimed_from.extend(host);
        self.reclaimed_from.insert(MemcgId::ROOT);
    }

    /// Notes that memory was reclaimed from a tenant for lack of it. Clients of its report and of
    /// the reports of all tenants above it are notified: these reports count the same memory.
    pub(super) fn note_pressure(&mut self, memcg: MemcgId) {
        let tree = self.driver.machine.tree();
        let above = std::iter::successors(Some(memcg), |memcg| tree.parent(*memcg));
        self.reclaimed_from.extend(above);
    }

    /// Replaces the watermarks; `None` to disable reclaim for the host.
    pub fn set_watermarks(&mut self, marks: Option<Watermarks>) {
        self.pressure.set_marks(marks);
    }
}

/// Whether some task of the host stalled for memory in at least [`STALLED`] of the last 10 s.
fn is_stalled(proc: &Proc) -> bool {
    let pressure = proc.pressure().ok().flatten();
    pressure.is_some_and(|pressure| pressure.some.avg10 >= STALLED)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::system::testing::Directory;

    /// The share of the last 10 s in which tasks stalled is parsed from the kernel's format.
    #[test]
    fn a_host_counts_as_stalled_from_a_tenth_of_the_time() {
        let says = |avg10: &str| {
            let directory = Directory::new("stalled");
            let folder = directory.0.join("pressure");
            std::fs::create_dir(&folder).expect("a directory");
            let line = |kind| format!("{kind} avg10={avg10} avg60=0.00 avg300=0.00 total=1\n");
            std::fs::write(folder.join("memory"), line("some") + &line("full")).expect("a file");
            is_stalled(&Proc::at(&directory.0).expect("a directory"))
        };
        assert!(says("10.00") && !says("9.99"));
        // Without PSI, stalls are unknown.
        let nothing = Directory::new("no-psi");
        assert!(!is_stalled(
            &Proc::at(Path::new(&nothing.0)).expect("a directory")
        ));
    }
}
