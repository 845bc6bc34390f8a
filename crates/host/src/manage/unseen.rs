//! Counts swap traffic that no scan reported to the engine: pages that kernel reclaim swapped out
//! at the hard limit, and that were swapped in again between two scans.
//!
//! Invariant: counters never fall. `left - came_back` is the number of swapped-out pages that the
//! engine does not know.

/// Counts of pages that the engine does not know, since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnseenSwap {
    /// Number of pages that were swapped out.
    pub(super) left: u64,
    /// Number of pages that were swapped in again, or freed while they were swapped out. The two
    /// cannot be distinguished.
    pub(super) came_back: u64,
    /// Number of swapped-out pages that the engine did not know at the last scan.
    out: u64,
    /// Number of pages that kernel reclaim took, of all pages that were swapped out. This includes
    /// pages that the engine knows.
    pub(super) taken: u64,
}

impl UnseenSwap {
    /// Adds a scan: `in_swap` pages were in swap, and the engine knew `known` of them. Both numbers
    /// are of the same moment, so a page that becomes known to the engine is not counted twice.
    pub(super) fn note(&mut self, in_swap: u64, known: u64) {
        let out = in_swap.saturating_sub(known);
        self.left += out.saturating_sub(self.out);
        self.came_back += self.out.saturating_sub(out);
        self.out = out;
        debug_assert_eq!(self.left - self.came_back, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_that_becomes_known_is_not_counted_twice() {
        let mut unseen = UnseenSwap::default();
        unseen.note(100, 0);
        // All pages were swapped in and out again, and a scan has reported them to the engine.
        unseen.note(100, 100);
        assert_eq!((unseen.left, unseen.came_back), (100, 100));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn left_less_came_back_is_swapped_out(scans in prop::collection::vec((0_u64..1000, 0_u64..1000), 1..50)) {
            let mut unseen = UnseenSwap::default();
            for (in_swap, known) in scans {
                let before = unseen;
                unseen.note(in_swap, known);
                prop_assert!(unseen.left >= before.left && unseen.came_back >= before.came_back);
                prop_assert_eq!(unseen.left - unseen.came_back, in_swap.saturating_sub(known));
            }
        }
    }
}
