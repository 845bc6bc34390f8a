//! Batches of frame ranges. An entry is two words, so a page-sized batch holds 255.

use alloc::vec::Vec;

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
    ranges: Vec<FrameRange>,
    max: usize,
}

impl Batch {
    pub(super) fn new(max: usize) -> Self {
        Self {
            ranges: Vec::with_capacity(max),
            max,
        }
    }

    pub(super) fn ranges(&self) -> &[FrameRange] {
        &self.ranges
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut FrameRange> {
        self.ranges.last_mut()
    }

    pub(super) fn push(&mut self, range: FrameRange) {
        debug_assert!(!self.is_full());
        self.ranges.push(range);
    }

    pub(super) fn is_full(&self) -> bool {
        self.ranges.len() == self.max
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }
}
