//! Batches of frame ranges. A range takes two words, so a batch of one page (4 KiB) has 255 ranges.
//!
//! Invariant: the ranges in use are not empty, and each is within the folio that it names.

/// Number of ranges in the first batch of every gather.
pub const BUNDLE: u8 = 8;
/// Number of ranges in a batch of one page: (4096 - 16) / 16.
pub const PAGE_BATCH: u8 = 255;

/// The frames `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// Number of the first frame.
    pub start: u64,
    /// Number of the frame after the last.
    pub end: u64,
}

/// A range in a batch. Its folio is looked up only once, when the range is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of the first frame.
    pub(super) start: u64,
    /// Number of frames.
    pub(super) nr: u32,
    /// Index of the folio to which the frames belong.
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

/// Length of a batch's array: the 255 ranges, and one more in place of the header of a real page.
/// So it has 256 elements, and an index of type `u8` needs no bounds check.
const ROOM: usize = PAGE_BATCH as usize + 1;
const _: () = assert!(ROOM == 256);

/// A batch of ranges.
#[derive(Debug)]
pub(super) struct Batch {
    entries: Box<[Entry; ROOM]>,
    /// Number of ranges in use.
    nr: u8,
    /// Maximum number of ranges in use.
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

    /// Sets the end of the last range.
    ///
    /// # Panics
    /// If the range would be empty, or longer than a folio can be.
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

    /// Returns the number of ranges that still fit.
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
