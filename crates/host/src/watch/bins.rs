//! The page-age histogram of a report, and the sums of one process, from the books.
//!
//! Invariant: bins and unknown pages together are the resident pages, exactly; a page is in the bin of
//! the time of the look that last saw it accessed, never in an older one.

use crate::ages::{Ages, MemoryKind};
use crate::books::Owner;
use crate::report::{AGE_EDGES_MS as EDGES_MS, AgeBin, NodeAge, Process};

const PAGE: u64 = 4096;

/// The edge of the bin in which an age is.
pub(super) fn edge_of(age_ms: u64) -> u64 {
    EDGES_MS[EDGES_MS.partition_point(|edge| *edge <= age_ms) - 1]
}

/// Sums of the histogram of all owners.
pub(super) struct Bins {
    nodes: Vec<[AgeBin; EDGES_MS.len()]>,
    /// Ages are told as of then, or as of when they are known.
    now_ms: u64,
    /// Older than this nothing can be said to be: the watch's own age.
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

    /// Adds what an owner owns; the process's own sums are put into `process`.
    pub(super) fn add(&mut self, ages: &Ages, owner: Owner, process: &mut Process) {
        let books = ages.books();
        process.resident_bytes += ages.resident(owner) * PAGE;
        for class in MemoryKind::classes() {
            process.unknown_age_bytes += books.unknown(owner, class) * PAGE;
        }
        let known_ms = self.now_ms.min(ages.known_ms(owner));
        for (class, last_ms, pages) in books.ages(owner) {
            let (kind, node) = MemoryKind::of(class);
            let age = known_ms.saturating_sub(last_ms);
            let bytes = pages * PAGE;
            let index = EDGES_MS.partition_point(|edge| *edge <= age) - 1;
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

    /// One entry a node that has any memory (the first always), without the bins that lie beyond the
    /// time for which anybody watched.
    pub(super) fn finish(self, nodes: &[u32]) -> Vec<NodeAge> {
        let watched_ms = self.watched_ms;
        let told = self
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
        told.enumerate()
            .filter(|(place, node)| *place == 0 || has_any(node))
            .map(|(_, node)| node)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_the_bin_whose_edge_it_has_reached() {
        assert_eq!(edge_of(0), 0);
        assert_eq!(edge_of(999), 0);
        assert_eq!(edge_of(1000), 1000);
        assert_eq!(edge_of(9_999), 5_000);
        assert_eq!(edge_of(u64::MAX), 604_800_000);
    }

    #[test]
    fn nothing_is_said_of_times_before_the_watch() {
        let bins = Bins::new(1, 7_000, 7_000);
        let nodes = bins.finish(&[0]);
        let edges: Vec<u64> = nodes[0].bins.iter().map(|bin| bin.older_than_ms).collect();
        assert_eq!(edges, [0, 1_000, 2_000, 5_000]);
    }

    #[test]
    fn a_node_without_memory_is_left_out_but_for_the_first() {
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
