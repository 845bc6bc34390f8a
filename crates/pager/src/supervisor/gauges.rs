//! What a report says of *now*: sizes and ages, and what the keepers have used.
//!
//! Invariant: gauges are taken only while a target lives, all from one moment; after the last one
//! has ended or was detached they stay as they last were, so that a report at the end tells what
//! the program was like and not that it is gone. Looks take at most 1/200 of the time.

use super::Supervisor;
use crate::report::{AgeBin, NodeAge};
use crate::target::{Target, proc};
use engine::workingset::{Bins, PageAge};
use engine::{FolioType, Millis};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Edges of the page-age bins, seconds: from what a limit turns over to what nobody needs.
const EDGES_S: [u64; 12] = [1, 2, 5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600];
/// From one look to the next, at least; once a program has run for a while, a tenth of that while.
const LEAST: Duration = Duration::from_millis(300);
const MOST: Duration = Duration::from_secs(2);
const PAGE: u64 = 4096;

/// One look.
#[derive(Clone, Debug)]
pub(super) struct Gauges {
    pub(super) resident: u64,
    pub(super) stored: u64,
    pub(super) used: u64,
    pub(super) same: u64,
    pub(super) page_age: NodeAge,
}

/// A program that ended before the first look has a report as well, with empty bins.
impl Default for Gauges {
    fn default() -> Gauges {
        Gauges {
            resident: 0,
            stored: 0,
            used: 0,
            same: 0,
            page_age: histogram(&[0; EDGES_S.len() + 1], 0),
        }
    }
}

/// The last look, and when the next may be.
#[derive(Default)]
pub(super) struct Looks {
    pub(super) last: Gauges,
    /// Pages put out when it was taken.
    pub(super) evicted_then: u64,
    next: Option<Instant>,
    /// When one may be taken if it is needed.
    not_before: Option<Instant>,
    /// Processor time of every keeper that was ever seen, by its id.
    keepers: BTreeMap<i32, u64>,
}

impl Looks {
    /// Milliseconds that keepers used, those that are gone included.
    pub(super) fn keeper_cpu_ms(&self) -> u64 {
        self.keepers.values().sum()
    }

    fn see_keepers(&mut self, t: &Target) {
        for keeper in t.link.keepers() {
            let ms = proc::cpu_ms(keeper);
            let known = self.keepers.entry(keeper).or_insert(0);
            *known = ms.max(*known);
        }
    }
}

impl Supervisor {
    /// Looks if it is time to.
    pub(super) fn look(&mut self) {
        self.look_from(self.looks.next);
    }

    /// Looks because something depends on it, unless it has just done so.
    pub(super) fn look_again(&mut self) {
        self.look_from(self.looks.not_before);
    }

    fn look_from(&mut self, at: Option<Instant>) {
        if at.is_none_or(|at| Instant::now() >= at) {
            let begin = Instant::now();
            // What keepers freed is found, and given back to the system.
            for t in &mut self.targets {
                t.store.shrink();
            }
            self.look_now();
            let cost = begin.elapsed();
            let least = LEAST.max(cost * 200);
            self.looks.not_before = Some(begin + least);
            self.looks.next = Some(begin + least.max((self.start.elapsed() / 10).min(MOST)));
        }
    }

    /// Looks, if there is still something to see.
    pub(super) fn look_now(&mut self) {
        for t in &self.targets {
            self.looks.see_keepers(t);
        }
        let mut gauges = Gauges {
            resident: self.limit.resident(),
            page_age: self.page_age(),
            ..Gauges::default()
        };
        for t in &self.targets {
            let census = t.census();
            gauges.stored += census.stored * PAGE;
            gauges.same += census.same;
            gauges.used += t.store.used_bytes();
        }
        // A target that ended meanwhile was half emptied by its keeper.
        let ended = self.targets.iter().any(|t| t.link.target_exited());
        if !ended && !self.targets.is_empty() {
            self.looks.last = gauges;
            self.looks.evicted_then = self.evicted_pages();
        }
    }

    fn page_age(&self) -> NodeAge {
        let now = self.now();
        let edges = EDGES_S.map(|s| Millis(s * 1000));
        let bins = Bins::new(&edges).unwrap_or_default();
        let mut pages = vec![0; EDGES_S.len() + 1];
        for t in &self.targets {
            let one: PageAge = t.lru.page_age(now, &bins);
            for (sum, bin) in pages.iter_mut().zip(one.bins()) {
                *sum += bin.pages[FolioType::Anon.index()].0;
            }
        }
        histogram(&pages, self.limit.resident())
    }
}

/// Bins that add up to `resident` bytes, the kernel's count. What the books do not know was just
/// touched, or cannot leave; what they know too much has just gone, the youngest first.
fn histogram(pages: &[u64], resident: u64) -> NodeAge {
    let mut bytes: Vec<u64> = pages.iter().map(|n| n * PAGE).collect();
    let known: u64 = bytes.iter().sum();
    let mut surplus = known.saturating_sub(resident);
    for bin in &mut bytes {
        let cut = surplus.min(*bin);
        *bin -= cut;
        surplus -= cut;
    }
    bytes[0] += resident.saturating_sub(known);
    let edges = std::iter::once(0).chain(EDGES_S.iter().map(|s| s * 1000));
    let bins = edges.zip(bytes).map(|(older_than_ms, anon_bytes)| AgeBin {
        older_than_ms,
        anon_bytes,
        file_bytes: 0,
    });
    NodeAge {
        node: 0,
        bins: bins.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(node: &NodeAge) -> Vec<u64> {
        node.bins.iter().map(|bin| bin.anon_bytes).collect()
    }

    fn pages(first: [u64; 3]) -> Vec<u64> {
        let mut pages = vec![0; EDGES_S.len() + 1];
        pages[..3].copy_from_slice(&first);
        pages
    }

    #[test]
    fn bins_add_up_to_what_the_kernel_counts() {
        for (known, resident) in [
            ([5, 3, 2], 10),
            ([5, 3, 2], 14),
            ([5, 3, 2], 4),
            ([0, 0, 0], 0),
        ] {
            let node = histogram(&pages(known), resident * PAGE);
            assert_eq!(bytes(&node).iter().sum::<u64>(), resident * PAGE);
        }
    }

    #[test]
    fn unknown_pages_are_young_and_surplus_ones_were() {
        let more = histogram(&pages([5, 3, 2]), 14 * PAGE);
        assert_eq!(bytes(&more)[..3], [9 * PAGE, 3 * PAGE, 2 * PAGE]);
        let less = histogram(&pages([5, 3, 2]), 4 * PAGE);
        assert_eq!(bytes(&less)[..3], [0, 2 * PAGE, 2 * PAGE]);
    }

    #[test]
    fn edges_are_those_of_the_engine_and_start_at_nothing() {
        let node = histogram(&pages([0, 0, 0]), 0);
        let edges: Vec<u64> = node.bins.iter().map(|bin| bin.older_than_ms).collect();
        assert_eq!((edges[0], edges[1], edges[12]), (0, 1000, 3_600_000));
        assert!(Bins::new(&EDGES_S.map(Millis)).is_ok());
    }
}
