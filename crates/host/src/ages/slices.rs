//! Divides the address space of a large process into slices, which are walked one by one; between
//! two slices the manager serves requests.
//!
//! Invariant: the slices cover the ranges in order, each byte once. All slices but the last have
//! [`SLICE_BYTES`] bytes.

use std::ops::Range;

/// Address space of one slice, in bytes: at most 2,048 page tables, which take about 50 ms.
const SLICE_BYTES: u64 = 4 << 30;

/// Splits address ranges into slices.
#[derive(Debug)]
pub(super) struct Slices {
    ranges: Vec<Range<u64>>,
    /// Index of the next range. What was returned of that range is cut off from its start.
    next: usize,
}

/// One slice: some address ranges, each with the index of the mapping that it belongs to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) numbers: Vec<usize>,
    pub(super) ranges: Vec<Range<u64>>,
}

impl Slices {
    pub(super) fn of(ranges: Vec<Range<u64>>) -> Slices {
        Slices { ranges, next: 0 }
    }

    /// Returns the next slice; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Slice> {
        let (mut slice, mut left) = (Slice::default(), SLICE_BYTES);
        while left > 0
            && let Some(range) = self.ranges.get_mut(self.next)
        {
            let end = range.end.min(range.start.saturating_add(left));
            if range.start < end {
                slice.numbers.push(self.next);
                slice.ranges.push(range.start..end);
            }
            left -= end.saturating_sub(range.start);
            range.start = range.start.max(end);
            self.next += usize::from(range.start >= range.end);
        }
        (!slice.ranges.is_empty()).then_some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_of_the_ranges() {
        let ranges = vec![
            4096..8192,
            8192..8192,
            SLICE_BYTES..3 * SLICE_BYTES,
            4 * SLICE_BYTES..4 * SLICE_BYTES + 4096,
            u64::MAX - 4095..u64::MAX,
        ];
        let mut slices = Slices::of(ranges.clone());
        let (mut bytes, mut all) = (0, Vec::new());
        while let Some(slice) = slices.next() {
            let of_slice = slice.ranges.iter().map(|one| one.end - one.start);
            assert!(of_slice.sum::<u64>() <= SLICE_BYTES);
            assert_eq!(slice.numbers.len(), slice.ranges.len());
            for (number, range) in slice.numbers.iter().zip(&slice.ranges) {
                assert!(ranges[*number].contains(&range.start) && range.end <= ranges[*number].end);
                bytes += range.end - range.start;
                all.push(range.clone());
            }
        }
        assert!(all.windows(2).all(|two| two[0].end <= two[1].start));
        assert_eq!(
            bytes,
            ranges.iter().map(|one| one.end - one.start).sum::<u64>()
        );
        assert_eq!(Slices::of(Vec::new()).next(), None);
        let small = Slices::of(ranges[..2].to_vec()).next();
        assert_eq!(small.map(|one| one.numbers), Some(vec![0]));
    }
}
