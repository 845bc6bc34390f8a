//! Memory pressure of the whole host, or of one NUMA node: if too little memory is available, all
//! tenants are reclaimed from; if only a node lacks memory, only pages of that node are.
//!
//! Invariant: reclaim begins when available memory is below the low watermark and ends when it is
//! above the high one, like kswapd. Between the two a reclaim in progress continues, and none
//! begins. While tasks stall for memory ([PSI](crate::system::pressure)), reclaim begins at the
//! high watermark, because the kernel is already reclaiming. If the root has a budget, nothing is
//! reclaimed for the host, and clients that wait for pressure are notified instead.
//!
//! Of a host with several nodes, each node has the watermarks in proportion to its memory. Nodes
//! are measured only while the host as a whole has enough: programs that are bound to a full node
//! cannot use what the others have, and MemAvailable is a sum of all.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;
use engine::vmscan::{Headroom, PAGES_PER_MEASUREMENT};
use engine::{Limit, NodeId, Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::reclaim_totals::ReclaimTotals;
use super::Tenants;
use super::under_way::{Lack, ReclaimReason};
use crate::system::{NodeMemory, Proc};

/// Time between two measurements while nothing must be reclaimed.
const EVERY: Duration = Duration::from_secs(1);
/// Pause after a reclaim that got nothing: all reclaimable memory is swapped out.
const IN_VAIN: Duration = Duration::from_secs(10);
/// The host counts as stalled if some task stalled in at least this share of the last 10 s; in
/// hundredths of a percent.
const STALLED: u32 = 1000;

/// Bytes of available memory (MemAvailable of /proc/meminfo) by which reclaim for the host is
/// started and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// If less is available, reclaim begins.
    pub low: u64,
    /// If more is available, reclaim ends.
    pub high: u64,
}

impl Watermarks {
    /// Returns the number of pages that are lacking when `available` bytes are available; `None` if
    /// nothing must be reclaimed. `is_on`: reclaim has begun, or tasks stall.
    fn lack(self, available: u64, is_on: bool) -> Option<Pages> {
        let begin = if is_on { self.high } else { self.low };
        (available < begin).then(|| Pages((self.high - available).div_ceil(PAGE_SIZE)))
    }

    /// Returns the watermarks of a node that has `part` of the host's `whole` bytes of memory.
    fn of_part(self, part: u64, whole: u64) -> Watermarks {
        let of = |mark: u64| {
            let share = u128::from(mark) * u128::from(part) / u128::from(whole.max(1));
            u64::try_from(share).unwrap_or(mark)
        };
        Watermarks {
            low: of(self.low),
            high: of(self.high),
        }
    }
}

/// When the host's memory is measured next, and whether reclaim for the host is in progress.
#[derive(Debug)]
pub(super) struct Pressure {
    /// The watermarks; `None` disables reclaim for the host.
    marks: Option<Watermarks>,
    /// When the host's memory is measured next; then when that of its nodes is.
    next: Instant,
    next_of_nodes: Instant,
    /// Whether reclaim has begun and not yet reached the high watermark.
    is_on: bool,
    /// The numbers of the nodes for which reclaim has begun, and that have not yet reached their
    /// high watermark.
    nodes_on: BTreeSet<u32>,
}

impl Pressure {
    pub(super) fn new(marks: Option<Watermarks>) -> Pressure {
        Pressure {
            marks,
            next: Instant::now(),
            next_of_nodes: Instant::now(),
            is_on: false,
            nodes_on: BTreeSet::new(),
        }
    }

    /// Replaces the watermarks; an earlier reclaim is forgotten.
    pub(super) fn set_marks(&mut self, marks: Option<Watermarks>) {
        *self = Pressure::new(marks);
    }

    /// Returns the number of pages to reclaim when `available` bytes of the host's memory are
    /// available.
    fn wanted(&mut self, available: u64, is_stalled: bool) -> Pages {
        let is_on = self.is_on || is_stalled;
        let lack = self.marks.and_then(|marks| marks.lack(available, is_on));
        self.is_on = lack.is_some();
        lack.unwrap_or_default()
    }

    /// Returns what the node lacks that lacks most; `None` if none lacks memory. `nodes`: the index
    /// and the memory of each node.
    fn wanted_of_nodes(&mut self, nodes: &[(usize, NodeMemory)], is_stalled: bool) -> Option<Lack> {
        let marks = self.marks?;
        let whole = nodes.iter().map(|(_, memory)| memory.total).sum();
        let lack = |&(index, memory): &(usize, NodeMemory)| {
            let is_on = is_stalled || self.nodes_on.contains(&memory.node);
            let marks = marks.of_part(memory.total, whole);
            Some(Lack {
                node: Some((index, memory.node)),
                available: memory.available,
                wanted: marks.lack(memory.available, is_on)?,
            })
        };
        let lacking: Vec<Lack> = nodes.iter().filter_map(lack).collect();
        let numbers = lacking.iter().filter_map(|lack| lack.node);
        self.nodes_on = numbers.map(|(_, number)| number).collect();
        lacking.into_iter().max_by_key(|lack| lack.wanted)
    }
}

impl Tenants {
    /// Starts reclaim from tenants for memory that the host lacks. Returns the time until the next
    /// measurement.
    pub(super) fn reclaim_for_host(&mut self) -> Duration {
        if self.pressure.marks.is_none() || self.is_reclaiming_for_host() {
            return IDLE_MAX;
        }
        let wait = self.pressure.next.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            return wait;
        }
        self.pressure.next = Instant::now() + EVERY;
        let proc = self.driver.watch.proc();
        let Ok(memory) = proc.memory() else {
            return EVERY;
        };
        let is_stalled = is_stalled(proc);
        let wanted = self.pressure.wanted(memory.available, is_stalled);
        let lack = match wanted {
            Pages(0) => self.lack_of_nodes(is_stalled),
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
    fn lack_of_nodes(&mut self, is_stalled: bool) -> Option<Lack> {
        let known = self.driver.watch.ages().nodes();
        if known.all().len() < 2 || Instant::now() < self.pressure.next_of_nodes {
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
    pub(super) fn step_for_host(&self, lack: Lack) -> Vec<Ongoing> {
        let request = ReclaimRequest {
            reason: ScanReason::Background,
            nr: lack.wanted,
            swappiness: None,
            now: self.now(),
        };
        let node = lack.node.map(|(index, _)| NodeId::of_index(index));
        vec![Ongoing::once(MemcgId::ROOT, request).on_node(node)]
    }

    /// Ends a reclaim for the host, and sets the time of the next measurement.
    pub(super) fn end_host_reclaim(&mut self, totals: &ReclaimTotals, lack: Lack) {
        let rest = rest_after(Pages(totals.evicted), lack.wanted);
        let next = Instant::now() + rest;
        // A node whose pages cannot be reclaimed must not delay reclaim for the whole host.
        match lack.node {
            None => self.pressure.next = next,
            Some(_) => {
                self.pressure.next_of_nodes = next;
                self.pressure.next = Instant::now() + rest.min(EVERY);
            }
        }
        self.note_host_pressure();
        self.say_why_stuck("", totals);
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

/// Returns the pause after a reclaim for the host that got `got` of `wanted` pages.
fn rest_after(got: Pages, wanted: Pages) -> Duration {
    match got {
        Pages(0) => IN_VAIN,
        got if Headroom::is_worth_it(got, wanted) => Duration::ZERO,
        // With no pause, reclaim would request only a few pages again and again.
        _ => EVERY,
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

    const MIB: u64 = 1 << 20;

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

    #[test]
    fn reclaim_begins_below_the_low_watermark_and_ends_above_the_high_one() {
        let marks = Watermarks {
            low: 100 * MIB,
            high: 200 * MIB,
        };
        let mut pressure = Pressure::new(Some(marks));
        for (available, is_stalled, wanted) in [
            (150, false, 0),
            (99, false, 101),
            (150, false, 50),
            (200, false, 0),
            // Once above the high watermark, reclaim does not begin again between the watermarks.
            (150, false, 0),
            (150, true, 50),
            (201, true, 0),
        ] {
            let got = pressure.wanted(available * MIB, is_stalled);
            assert_eq!(got, Pages(wanted * 256), "{available} {is_stalled}");
        }
        assert_eq!(Pressure::new(None).wanted(0, true), Pages(0));
    }

    /// The host has enough, and one of its nodes is full.
    #[test]
    fn a_node_has_its_share_of_the_watermarks() {
        let marks = Watermarks {
            low: 400 * MIB,
            high: 800 * MIB,
        };
        let mut pressure = Pressure::new(Some(marks));
        let mut wanted = |available: [u64; 2], is_stalled| {
            // Node 0 has a quarter of the memory, and so 100 and 200 MiB of the watermarks.
            let memory = |node, total, available| NodeMemory {
                node,
                total: total * MIB,
                available: available * MIB,
            };
            let nodes = [
                (0, memory(0, 1000, available[0])),
                (1, memory(5, 3000, available[1])),
            ];
            let lack = pressure.wanted_of_nodes(&nodes, is_stalled)?;
            Some((lack.node?, lack.available / MIB, lack.wanted.0 / 256))
        };
        assert_eq!(wanted([100, 2000], false), None);
        assert_eq!(wanted([99, 2000], false), Some(((0, 0), 99, 101)));
        assert_eq!(wanted([150, 2000], false), Some(((0, 0), 150, 50)));
        // The other node lacks more.
        assert_eq!(wanted([150, 200], false), Some(((1, 5), 200, 400)));
        assert_eq!(wanted([200, 600], false), None);
        assert_eq!(wanted([150, 400], false), None, "neither has begun again");
        assert_eq!(wanted([150, 700], true), Some(((0, 0), 150, 50)));
        assert_eq!(Pressure::new(None).wanted_of_nodes(&[], true), None);
    }

    /// Regression: if a reclaim got a single page of all that the host lacked, the next one began
    /// without a pause, again and again.
    #[test]
    fn the_less_is_reclaimed_the_longer_the_pause() {
        for (got, rest) in [
            (0, IN_VAIN),
            (1, EVERY),
            (255, EVERY),
            (256, Duration::ZERO),
        ] {
            assert_eq!(
                rest_after(Pages(got), Pages(PAGES_PER_MEASUREMENT)),
                rest,
                "{got}"
            );
        }
        // If the host lacks few pages, few reclaimed pages are enough.
        assert_eq!(rest_after(Pages(1), Pages(20)), Duration::ZERO);
    }
}
