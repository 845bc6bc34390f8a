//! Batches of frame ranges. An entry is two words, so a page-sized batch holds 255.

use alloc::boxed::Box;

/// Ranges of the batch that every gather begins with.
pub const BUNDLE: usize = 8;
/// Ranges of a page-sized batch: (4096 - 16) / 16.
pub const PAGE_BATCH: usize = 255;

/// Frames `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// First frame number.
    pub start: u64,
    /// Frame number past the end; what an added page is compared with.
    pub end: u64,
}

/// One batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// As long as its capacity; `nr` are in use.
    ranges: Box<[FrameRange]>,
    nr: usize,
}

impl Batch {
    pub(super) fn new(max: usize) -> Self {
        let empty = FrameRange { start: 0, end: 0 };
        Self {
            ranges: alloc::vec![empty; max].into_boxed_slice(),
            nr: 0,
        }
    }

    #[inline]
    pub(super) fn ranges(&self) -> &[FrameRange] {
        &self.ranges[..self.nr]
    }

    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut FrameRange> {
        self.ranges.get_mut(self.nr.wrapping_sub(1))
    }

    #[inline]
    pub(super) fn push(&mut self, range: FrameRange) {
        self.ranges[self.nr] = range;
        self.nr += 1;
    }

    /// Ranges that still fit.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.ranges.len() - self.nr
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.nr == self.ranges.len()
    }

    pub(super) fn clear(&mut self) {
        self.nr = 0;
    }
}
