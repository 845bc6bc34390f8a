//! Look-around: where one page was found young by eviction's reverse map, its neighbours may be, too,
//! and are cheap to look at. spec: lru-gen.md 7.
//!
//! The page tables are the embedder's ([`crate::Memory::look_around`]); what it may look at is decided
//! here, and what becomes of a neighbour that is young, by [`crate::Lruvec::young`]: the promotion of
//! a walk, which leaves a page where activation would, in the youngest generation.
//!
//! Invariant: a window holds the page, lies in one VMA and in one table of 512 entries, and has 2 to
//! 64 entries.

use core::ops::Range;

/// Most entries that are looked at around a page.
pub const LOOK_AROUND_PTES: u64 = 64;

/// The page numbers to look at around `page` of a VMA that spans `vma`: the aligned window of
/// [`LOOK_AROUND_PTES`], as far as the VMA goes. `None` when that is the page alone, or not even that.
#[must_use]
pub fn look_around_window(page: u64, vma: Range<u64>) -> Option<Range<u64>> {
    let start = page / LOOK_AROUND_PTES * LOOK_AROUND_PTES;
    // A table is a whole number of windows, so no window reaches beyond it.
    let end = start.saturating_add(LOOK_AROUND_PTES);
    let window = start.max(vma.start)..end.min(vma.end);
    (window.contains(&page) && window.end - window.start > 1).then_some(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_within_its_vma() {
        assert_eq!(look_around_window(100, 0..1000), Some(64..128));
        assert_eq!(look_around_window(127, 0..1000), Some(64..128));
        assert_eq!(look_around_window(128, 0..1000), Some(128..192));
        assert_eq!(look_around_window(100, 90..110), Some(90..110));
        assert_eq!(look_around_window(100, 100..101), None, "one page");
        assert_eq!(look_around_window(127, 127..1000), None, "one page of it");
        assert_eq!(look_around_window(100, 0..50), None, "another VMA");
        let last = look_around_window(u64::MAX - 1, 0..u64::MAX);
        assert_eq!(last, Some(u64::MAX - 63..u64::MAX));
    }

    #[test]
    fn never_beyond_a_table() {
        for page in 0..2048 {
            let window = look_around_window(page, 3..2000);
            if let Some(window) = window {
                assert!(window.contains(&page) && window.end - window.start <= 64);
                assert_eq!(window.start / 512, (window.end - 1) / 512, "page {page}");
            }
        }
    }
}
