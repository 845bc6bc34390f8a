//! Batches of frame ranges. An entry is two words, so a page-sized batch holds 255.
//!
//! Invariant: the ranges in use are not empty, and each lies in the folio that it names.

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
    /// Frame number past the end.
    pub end: u64,
}

/// A range as it is gathered. Its folio is looked up once, when the range is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// First frame number.
    pub(super) start: u64,
    /// Frames.
    pub(super) nr: u32,
    /// Index of the folio they belong to.
    pub(super) folio: u32,
}

const _: () = assert!(size_of::<Entry>() == 16, "two words");

impl Entry {
    pub(super) fn range(&self) -> FrameRange {
        FrameRange {
            start: self.start,
            end: self.start + u64::from(self.nr),
        }
    }
}

/// One batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// As long as its capacity; `nr` are in use.
    entries: Box<[Entry]>,
    nr: usize,
}

impl Batch {
    pub(super) fn new(max: usize) -> Self {
        Self {
            entries: alloc::vec![Entry::default(); max].into_boxed_slice(),
            nr: 0,
        }
    }

    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.nr]
    }

    /// Makes the last range longer.
    #[inline]
    pub(super) fn grow(&mut self, nr: u32) {
        if let Some(last) = self.entries.get_mut(self.nr.wrapping_sub(1)) {
            last.nr += nr;
        }
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.entries[self.nr] = entry;
        self.nr += 1;
    }

    /// Ranges that still fit.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.entries.len() - self.nr
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.nr == self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        self.nr = 0;
    }
}
