//! Time that scanning and paging out have taken since the start.
//!
//! Invariant: the figures only grow. Processor time is that of the thread that runs the driver, and
//! of threads that scan and page out for it. Other threads of this process (files, metrics) do not
//! count.

use std::time::Duration;

/// Upper edges of the histogram of scan times, in milliseconds; scans take from 1 ms for one small
/// program to seconds for a whole host.
pub const WALK_EDGES_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// Histogram of scans by the time that reading page tables took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Walks {
    /// For each edge: number of scans whose time was at most this edge, and more than the edge
    /// before. The last number is of scans above all edges.
    pub counts: [u64; WALK_EDGES_MS.len() + 1],
    /// Sum of the reading times of all scans.
    pub total: Duration,
}

impl Walks {
    /// Adds one scan, in which reading page tables took the time `took`.
    pub(super) fn note(&mut self, took: Duration) {
        let is_below = |edge: &u64| Duration::from_millis(*edge) < took;
        self.counts[WALK_EDGES_MS.partition_point(is_below)] += 1;
        self.total += took;
    }
}

/// Times since the start, for reports and for planning the next work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// Elapsed time of reading page tables.
    pub(super) walks: Walks,
    /// Processor time of scans: reading, clearing, the age table, and updating the engine.
    pub(super) scan: Duration,
    /// Processor time of reclaim: choosing pages, kernel calls, and verifying what was paged out.
    pub(super) page_out: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_counts_below_the_edge_that_it_reaches() {
        let mut walks = Walks::default();
        for micros in [0, 1_000, 1_001, 5_000_000, 5_000_001] {
            walks.note(Duration::from_micros(micros));
        }
        let mut expected = [0; WALK_EDGES_MS.len() + 1];
        expected[0] = 2;
        expected[1] = 1;
        expected[11] = 1;
        expected[12] = 1;
        assert_eq!(walks.counts, expected);
        assert_eq!(walks.total, Duration::from_micros(10_002_002));
    }
}
