//! What looking and paging out have taken until now.
//!
//! Invariant: all of it only grows; processor time is that of the thread that has the driver and of those
//! that read and page out with it, so what other threads of this process do meanwhile (files, metrics) is in neither part.

use std::time::Duration;

/// Upper edges of the histogram of readings, milliseconds: from a small program's to a host's.
pub const WALK_EDGES_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// How long readings of all tables took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Walks {
    /// Readings by how long they took: no longer than each edge and longer than the one before, and a last one for those
    /// that took longer.
    pub counts: [u64; WALK_EDGES_MS.len() + 1],
    /// All of them together.
    pub total: Duration,
}

impl Walks {
    /// One more.
    pub(super) fn note(&mut self, took: Duration) {
        let is_below = |edge: &u64| Duration::from_millis(*edge) < took;
        self.counts[WALK_EDGES_MS.partition_point(is_below)] += 1;
        self.total += took;
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// Reading tables, by the clock.
    pub(super) walks: Walks,
    /// Processor time of looks: reading, clearing, the books, and telling the engine.
    pub(super) look: Duration,
    /// Processor time of reclaim: choosing, the kernel's calls, and finding out what left.
    pub(super) page_out: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_counts_below_the_edge_that_it_reaches() {
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
