//! Sums over the mappings of files, in which each part of a file counts once, however often and by
//! however many processes it is mapped.
//!
//! Invariant: a sum is never larger than what the files have. It is exact if the mappings of a file
//! cover the same parts, or parts without a common page.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::system::{Device, Mapping};

/// A file: its device and inode number.
type File = (Device, u64);

/// The mappings of each file: which bytes of the file are mapped, and how many of them count.
#[derive(Debug, Default)]
pub(super) struct MappedFiles(BTreeMap<File, Vec<(Range<u64>, u64)>>);

impl MappedFiles {
    /// Adds a mapping of which `bytes` bytes count.
    pub(super) fn add(&mut self, mapping: &Mapping, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let end = mapping
            .offset
            .saturating_add(mapping.end.saturating_sub(mapping.start));
        let file = (mapping.device, mapping.inode);
        let parts = self.0.entry(file).or_default();
        parts.push((mapping.offset..end, bytes));
    }

    /// Returns the sum over all files.
    pub(super) fn sum(self) -> u64 {
        let files = self.0.into_values().map(of_file);
        files.fold(0, u64::saturating_add)
    }
}

/// Returns how many bytes of one file count at least. Of a part that overlaps larger ones, only
/// what cannot lie in the overlap is added. The largest part alone is a bound, too.
fn of_file(mut parts: Vec<(Range<u64>, u64)>) -> u64 {
    let length = |range: &Range<u64>| range.end - range.start;
    parts.sort_by_key(|(range, bytes)| (std::cmp::Reverse((length(range), *bytes)), range.start));
    let largest = parts.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let mut covered: Vec<Range<u64>> = Vec::new();
    let mut sum: u64 = 0;
    for (range, bytes) in parts {
        let common = |one: &Range<u64>| {
            one.end
                .min(range.end)
                .saturating_sub(one.start.max(range.start))
        };
        let overlap: u64 = covered.iter().map(common).sum();
        sum = sum.saturating_add(bytes.saturating_sub(overlap));
        if overlap < length(&range) {
            cover(&mut covered, range);
        }
    }
    sum.max(largest)
}

/// Adds a range to disjoint ranges; those that it touches become one with it.
fn cover(covered: &mut Vec<Range<u64>>, mut range: Range<u64>) {
    covered.retain(|one| {
        let is_apart = one.end < range.start || range.end < one.start;
        if !is_apart {
            range = one.start.min(range.start)..one.end.max(range.end);
        }
        is_apart
    });
    covered.push(range);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::system::Kind;

    const PAGE: u64 = 4096;

    fn mapping(inode: u64, pages: Range<u64>) -> Mapping {
        Mapping {
            start: 0,
            end: (pages.end - pages.start) * PAGE,
            is_shared: true,
            offset: pages.start * PAGE,
            device: Device { major: 0, minor: 1 },
            inode,
            kind: Kind::Shmem,
            ..Mapping::default()
        }
    }

    fn sum(parts: &[(u64, Range<u64>, u64)]) -> u64 {
        let mut files = MappedFiles::default();
        for (inode, pages, counted) in parts {
            files.add(&mapping(*inode, pages.clone()), counted * PAGE);
        }
        files.sum() / PAGE
    }

    /// Regression: a memory of 64 MiB that a program mapped five times, as a JVM does, was reported
    /// as 320 MiB in swap.
    #[test]
    fn a_file_counts_once_however_often_it_is_mapped() {
        assert_eq!(sum(&[(1, 0..16, 16), (1, 0..16, 16), (1, 0..16, 16)]), 16);
        assert_eq!(sum(&[(1, 0..16, 5), (1, 0..16, 5)]), 5);
        assert_eq!(sum(&[(1, 0..16, 16), (2, 0..16, 16)]), 32);
    }

    #[test]
    fn parts_of_a_file_add_up() {
        assert_eq!(sum(&[(1, 0..8, 8), (1, 8..16, 8)]), 16);
        // A part of the whole, whichever comes first.
        assert_eq!(sum(&[(1, 0..8, 8), (1, 0..16, 16), (1, 8..16, 8)]), 16);
        assert_eq!(sum(&[(1, 0..12, 12), (1, 4..16, 12)]), 16);
        assert_eq!(sum(&[]), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares with the pages of a file of which some are in swap.
        #[test]
        fn a_sum_is_never_more_than_the_file_has(
            swapped in prop::collection::vec(any::<bool>(), 32),
            starts in prop::collection::vec((0usize..32, 1usize..32), 0..6)
        ) {
            let mut mapped = [false; 32];
            let mut parts = Vec::new();
            for (start, length) in starts {
                let pages = start..(start + length).min(32);
                let counted = pages.clone().filter(|page| swapped[*page]).count();
                pages.clone().for_each(|page| mapped[page] = true);
                parts.push((1, pages.start as u64..pages.end as u64, counted as u64));
            }
            let has = mapped.iter().zip(&swapped).filter(|(mapped, swapped)| **mapped && **swapped);
            let has = has.count() as u64;
            prop_assert!(sum(&parts) <= has);
            let largest = parts.iter().map(|(.., counted)| *counted).max().unwrap_or(0);
            prop_assert!(sum(&parts) >= largest.min(has));
            if swapped.iter().all(|swapped| *swapped) {
                prop_assert_eq!(sum(&parts), has);
            }
        }
    }
}
