//! Gathering the pages of removed page-table entries as ranges of frames, so that after one TLB
//! flush they leave rmap, swap cache, LRU and memory a range at a time. spec: mmu-gather.md, profile
//! V1 with V2's frame numbers. [`by_page`] does the same page by page, to measure against.
//!
//! Invariants (mmu-gather.md 9):
//! - I1 the ranges' lengths sum to the adds since the last flush, in their order;
//! - I2 a range is not empty and lies within one folio;
//! - I3 a batch holds at most its capacity; all before the active one are full;
//! - I4 the last range of a full batch has one page;
//! - I5 `range_limit` is set iff the last range of the active batch may grow, and lies beyond it.

mod batch;
pub mod by_page;
mod frames;
mod release;
mod rmap;

pub use batch::{BUNDLE, FrameRange, PAGE_BATCH};
pub use frames::{FolioInfo, FrameKind, Frames, ReleaseStats};

use alloc::vec::Vec;
use batch::Batch;

/// Ranges processed between two yields.
pub const CHUNK: usize = 512;
/// About so many ranges may be gathered before a flush.
const GATHER_LIMIT: usize = 10_000;

/// What is gathered, and what is still to be done for it.
#[derive(Debug)]
pub struct MmuGather {
    batches: Vec<Batch>,
    active: usize,
    /// Past the last frame of the folio of the open range; `None` when no range is open.
    range_limit: Option<u64>,
    /// First batch and range whose rmap is still to be removed.
    rmap_pend: (usize, usize),
    /// Page-sized batches that may be added; a test makes it small.
    batch_limit: usize,
    tlb_flushed: bool,
    /// A dirty file page is among those whose rmap is still to be removed.
    dirty: bool,
}

impl Default for MmuGather {
    fn default() -> Self {
        Self::with_batch_limit(GATHER_LIMIT / PAGE_BATCH)
    }
}

impl MmuGather {
    /// A gather that can take `limit` batches beside the bundle.
    #[must_use]
    pub fn with_batch_limit(limit: usize) -> Self {
        Self {
            batches: alloc::vec![Batch::new(BUNDLE)],
            active: 0,
            range_limit: None,
            rmap_pend: (0, 0),
            batch_limit: limit,
            tlb_flushed: false,
            dirty: false,
        }
    }

    /// Adds `frame`, whose page-table entry was just cleared. True when the caller must flush now.
    #[inline]
    pub fn add(&mut self, frames: &Frames, frame: u64) -> bool {
        self.tlb_flushed = false;
        if let Some(limit) = self.range_limit
            && let Some(last) = self.batches[self.active].last_mut()
            && last.end == frame
        {
            last.end += 1;
            if last.end == limit {
                self.range_limit = None;
            }
            return false;
        }
        self.open(frames, frame, frame + 1)
    }

    /// Adds frames of one folio whose entries, one after the other, were just cleared, as so many calls
    /// of [`Self::add`] would; `range` keeps what is still to be added. True when the caller must flush
    /// now.
    #[inline]
    pub fn add_range(&mut self, frames: &Frames, range: &mut FrameRange) -> bool {
        self.tlb_flushed = false;
        let FrameRange { start, end } = *range;
        let limit = self.range_limit;
        let batch = &mut self.batches[self.active];
        let joins = batch
            .last_mut()
            .filter(|last| limit.is_some() && last.end == start);
        if let Some(last) = joins {
            (last.end, range.start) = (end, end);
            self.range_limit = limit.filter(|&limit| end < limit);
            return false;
        }
        // The last range of a batch has one page.
        let to = if batch.room() > 1 { end } else { start + 1 };
        range.start = to;
        self.open(frames, start, to)
    }

    /// Opens a range.
    #[inline]
    fn open(&mut self, frames: &Frames, start: u64, end: u64) -> bool {
        let folio = frames.folio(start);
        let limit = folio.first + u64::from(folio.nr);
        debug_assert!(end <= limit, "a range lies in one folio");
        self.dirty |= folio.kind == FrameKind::File(true);
        let batch = &mut self.batches[self.active];
        batch.push(FrameRange { start, end });
        self.range_limit = if end < limit { Some(limit) } else { None };
        batch.is_full() && !self.next_batch()
    }

    /// The batch is full: the next one, of which the last range of this one knows nothing.
    fn next_batch(&mut self) -> bool {
        if self.active + 1 == self.batches.len() {
            if self.batches.len() > self.batch_limit {
                return false;
            }
            self.batches.push(Batch::new(PAGE_BATCH));
        }
        self.active += 1;
        self.range_limit = None;
        true
    }

    /// Removes the rmap of what was added since the last time. To be called before the page-table
    /// lock is dropped, and after a TLB flush when a dirty file page is among it.
    pub fn flush_rmaps(&mut self, frames: &mut Frames) {
        assert!(
            !self.dirty || self.tlb_flushed,
            "a dirty file page before its TLB flush"
        );
        self.dirty = false;
        let (batch, first) = self.rmap_pend;
        for (n, pending) in self.batches[..=self.active].iter().enumerate().skip(batch) {
            let skip = if n == batch { first } else { 0 };
            let ranges = &pending.ranges()[skip..];
            for range in ranges {
                frames.remove_rmap_range(*range);
            }
        }
        // No page may join a range whose rmap is gone.
        self.range_limit = None;
        self.rmap_pend = (self.active, self.batches[self.active].ranges().len());
    }

    /// The TLB no longer knows what was added so far.
    pub const fn flush_tlb(&mut self) {
        self.tlb_flushed = true;
    }

    /// Gives back all that was gathered, in chunks; `yielded` is called between them.
    pub fn flush(&mut self, frames: &mut Frames, mut yielded: impl FnMut(usize)) {
        self.flush_tlb();
        self.flush_rmaps(frames);
        for batch in &mut self.batches[..=self.active] {
            for chunk in batch.ranges().chunks(CHUNK) {
                frames.free_ranges(chunk);
                yielded(chunk.len());
            }
            batch.clear();
        }
        self.active = 0;
        self.range_limit = None;
        self.rmap_pend = (0, 0);
    }

    /// All ranges, in the order of the adds.
    pub fn ranges(&self) -> impl Iterator<Item = FrameRange> + '_ {
        self.batches[..=self.active]
            .iter()
            .flat_map(Batch::ranges)
            .copied()
    }

    /// Where the open range must end.
    #[must_use]
    pub const fn range_limit(&self) -> Option<u64> {
        self.range_limit
    }

    /// Ranges in the active batch; batches in use.
    #[must_use]
    pub fn fill(&self) -> (usize, usize) {
        (self.batches[self.active].ranges().len(), self.active + 1)
    }

    /// Asserts I2 to I5.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self, frames: &Frames) {
        for range in self.ranges() {
            assert!(range.start < range.end, "I2: {range:?}");
            assert!(range.end <= frames.folio_end(range.start), "I2: {range:?}");
        }
        for (n, batch) in self.batches.iter().enumerate() {
            let nr = batch.ranges().len();
            assert!(n >= self.active || batch.is_full(), "I3: batch {n}");
            assert!(n <= self.active || nr == 0, "I3: batch {n}");
            let last = batch.ranges().last().filter(|_| batch.is_full());
            assert!(
                last.is_none_or(|last| last.end - last.start == 1),
                "I4: batch {n}"
            );
        }
        let last = self.batches[self.active].ranges().last();
        if let Some(limit) = self.range_limit {
            assert!(last.is_some_and(|last| last.end < limit), "I5");
        }
    }
}

#[cfg(test)]
mod tests;
