//! The page-age histogram of a report, and the sums of one process, computed from the age table.
//!
//! Invariant: bins and pages of unknown age together are exactly the resident pages. A page is in
//! the bin of the last scan that found it accessed, never in an older bin.

use engine::age_bins::{self, EDGES_MS};
use engine::units::PAGE_SIZE;

use crate::age_table::Owner;
use crate::ages::{Ages, MemoryKind};
use crate::report::{AgeBin, NodeAge, Process};

/// The page-age histogram of all watched processes, while pages are being added to it.
pub(super) struct Bins {
    nodes: Vec<[AgeBin; EDGES_MS.len()]>,
    /// Time as of which ages are reported, milliseconds; the ages of a postponed process are as of
    /// earlier.
    now_ms: u64,
    /// Time since the watch began, milliseconds: no page is reported as older.
    watched_ms: u64,
}

impl Bins {
    pub(super) fn new(nodes: usize, now_ms: u64, watched_ms: u64) -> Bins {
        let empty = EDGES_MS.map(|older_than_ms| AgeBin {
            older_than_ms,
            ..AgeBin::default()
        });
        Bins {
            nodes: vec![empty; nodes.max(1)],
            now_ms,
            watched_ms,
        }
    }

    /// Adds an owner's pages to the histogram, and their sums to the fields of `process`.
    pub(super) fn add(&mut self, ages: &Ages, owner: Owner, process: &mut Process) {
        let age_table = ages.age_table();
        process.resident_bytes += ages.resident(owner) * PAGE_SIZE;
        for class in MemoryKind::classes() {
            process.unknown_age_bytes += age_table.unknown(owner, class) * PAGE_SIZE;
        }
        let known_ms = self.now_ms.min(ages.known_ms(owner));
        for (class, last_ms, pages) in age_table.ages(owner) {
            let (kind, node) = MemoryKind::of(class);
            let age = known_ms.saturating_sub(last_ms);
            let bytes = pages * PAGE_SIZE;
            let index = age_bins::bin(age);
            let node = node.min(self.nodes.len() - 1);
            let bin = &mut self.nodes[node][index];
            match kind {
                MemoryKind::Anon | MemoryKind::Shmem => bin.anon_bytes += bytes,
                MemoryKind::File => bin.file_bytes += bytes,
            }
            let fields = [
                (10_000, &mut process.older_than_10s_bytes),
                (60_000, &mut process.older_than_1m_bytes),
                (600_000, &mut process.older_than_10m_bytes),
            ];
            for (edge, field) in fields {
                *field += if age >= edge { bytes } else { 0 };
            }
            process.young_bytes += if age == 0 { bytes } else { 0 };
        }
    }

    /// Returns the bins of each node that has memory, and of the first node in any case. Bins that
    /// begin after the watched time are omitted.
    pub(super) fn finish(self, nodes: &[u32]) -> Vec<NodeAge> {
        let watched_ms = self.watched_ms;
        let reported = self
            .nodes
            .into_iter()
            .enumerate()
            .map(|(place, bins)| NodeAge {
                node: nodes.get(place).copied().unwrap_or(0),
                bins: bins
                    .into_iter()
                    .filter(|bin| bin.older_than_ms <= watched_ms)
                    .collect(),
            });
        let has_any = |node: &NodeAge| {
            node.bins
                .iter()
                .any(|bin| bin.anon_bytes + bin.file_bytes > 0)
        };
        reported
            .enumerate()
            .filter(|(place, node)| *place == 0 || has_any(node))
            .map(|(_, node)| node)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bin_is_older_than_the_watch() {
        let bins = Bins::new(1, 7_000, 7_000);
        let nodes = bins.finish(&[0]);
        let edges: Vec<u64> = nodes[0].bins.iter().map(|bin| bin.older_than_ms).collect();
        assert_eq!(edges, [0, 1_000, 2_000, 5_000]);
    }

    #[test]
    fn only_the_first_node_is_reported_without_memory() {
        let mut bins = Bins::new(3, 0, 0);
        bins.nodes[2][0].anon_bytes = 4096;
        let nodes: Vec<u32> = bins
            .finish(&[0, 4, 7])
            .iter()
            .map(|node| node.node)
            .collect();
        assert_eq!(nodes, [0, 7]);
    }
}
