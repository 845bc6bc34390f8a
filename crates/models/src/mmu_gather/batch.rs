//! Batches of frame ranges. An entry is two words, so a page-sized batch holds 255.
//!
//! Invariant: the ranges in use are not empty, and each lies in the folio that it names.

use alloc::boxed::Box;

/// Ranges of the batch that every gather begins with.
pub const BUNDLE: u8 = 8;
/// Ranges of a page-sized batch: (4096 - 16) / 16.
pub const PAGE_BATCH: u8 = 255;

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

/// Ranges that a page has room for, the header's place included. As many as a byte can tell apart, so
/// that no index needs a check.
const ROOM: usize = PAGE_BATCH as usize + 1;
const _: () = assert!(ROOM == 256);

/// One batch.
#[derive(Debug)]
pub(super) struct Batch {
    entries: Box<[Entry; ROOM]>,
    /// Entries in use, and the most that may be.
    nr: u8,
    max: u8,
}

impl Batch {
    pub(super) fn new(max: u8) -> Self {
        Self {
            entries: Box::new([Entry::default(); ROOM]),
            nr: 0,
            max,
        }
    }

    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.nr)]
    }

    /// The last range ends there.
    ///
    /// # Panics
    /// When it would be empty, or longer than a folio can be.
    #[inline]
    pub(super) fn end_at(&mut self, end: u64) {
        let last = &mut self.entries[usize::from(self.nr.wrapping_sub(1))];
        last.nr = u32::try_from(end - last.start).expect("within a folio");
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.entries[usize::from(self.nr)] = entry;
        self.nr += 1;
    }

    /// Ranges that still fit.
    #[inline]
    pub(super) const fn room(&self) -> u8 {
        self.max - self.nr
    }

    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.nr == self.max
    }

    pub(super) const fn clear(&mut self) {
        self.nr = 0;
    }
}
