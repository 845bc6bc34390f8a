//! Look-around: after eviction has found a page young by its reverse map, it also checks the
//! neighbouring page table entries. They may be young, too, and are cheap to read.
//! spec: lru-gen.md 7.
//!
//! The embedder reads the page tables ([`crate::Memory::look_around`]); this module decides which
//! entries it may read. [`crate::Lruvec::young`] promotes a young neighbour as a walk does: to the
//! youngest generation, where an activation would put the page, too.
//!
//! Invariant: a window contains the page, lies in one VMA and in one table of 512 entries, and has
//! 2 to 64 entries.

use core::ops::Range;

/// Maximum number of entries that one look-around reads.
pub const LOOK_AROUND_PTES: u64 = 64;

/// Entries of a page table of the lowest level.
const TABLE_PTES: u64 = 512;

/// Returns the page numbers to read around `page`, in a VMA that spans `vma`: half of
/// [`LOOK_AROUND_PTES`] on each side, within the table and the VMA. If fewer fit on one side, more
/// are read on the other. `None` if the window would contain only `page`, or if `page` is not in
/// the VMA.
#[must_use]
pub fn look_around_window(page: u64, vma: Range<u64>) -> Option<Range<u64>> {
    let table = page / TABLE_PTES * TABLE_PTES;
    let start = table.max(vma.start);
    let end = table.saturating_add(TABLE_PTES).min(vma.end);
    if !(start..end).contains(&page) || end - start == 1 {
        return None;
    }
    let most = LOOK_AROUND_PTES.min(end - start);
    let first = page.saturating_sub(LOOK_AROUND_PTES / 2);
    let first = first.clamp(start, end - most);
    Some(first..first + most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centred_and_within_its_table_and_vma() {
        assert_eq!(look_around_window(100, 0..1000), Some(68..132));
        assert_eq!(look_around_window(10, 0..1000), Some(0..64));
        assert_eq!(look_around_window(511, 0..1000), Some(448..512));
        assert_eq!(look_around_window(512, 0..1000), Some(512..576));
        assert_eq!(look_around_window(100, 90..1000), Some(90..154));
        assert_eq!(look_around_window(100, 90..110), Some(90..110));
        assert_eq!(look_around_window(100, 100..101), None, "one page");
        assert_eq!(look_around_window(127, 127..1000), Some(127..191));
        assert_eq!(
            look_around_window(511, 511..1000),
            None,
            "one page of the table"
        );
        assert_eq!(look_around_window(100, 0..50), None, "another VMA");
        let last = look_around_window(u64::MAX - 1, 0..u64::MAX);
        assert_eq!(last, Some(u64::MAX - 64..u64::MAX));
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
