//! A model of the kernel's mmu_gather: gathers the pages of removed page-table entries as ranges of
//! frames. After one TLB flush, the ranges are removed from rmap, swap cache, LRU and memory, each
//! at once. [`by_page`] does the same page by page, for comparison. spec: mmu-gather.md, profile V1
//! with V2's frame numbers.
//!
//! Invariants (mmu-gather.md 9):
//! - I1 the lengths of the ranges sum to the number of frames added since the last flush, and the
//!   ranges are in the order of the adds;
//! - I2 a range is not empty and lies within one folio;
//! - I3 a batch has at most its capacity of ranges; all batches before the active one are full;
//! - I4 the last range of a full batch has one page;
//! - I5 `range_limit` is set exactly if the last range of the active batch may grow, and lies
//!   beyond that range. Then `next` is the frame after the range, otherwise it is no frame. The
//!   length of a range is stored when the range is closed.

mod batch;
mod counters;

mod frames;

pub mod by_page;
mod release;
mod rmap;

pub use batch::{BUNDLE, FrameRange, PAGE_BATCH};
pub use counters::Counter;
pub use frames::{FolioInfo, Found, FrameKind, Frames, ReleaseStats};

use batch::{Batch, Entry};

/// Number of ranges that are released between two calls of `yielded` (where a kernel may
/// reschedule).
pub const CHUNK: usize = 512;
/// Approximate number of ranges that may be gathered before a flush.
const GATHER_LIMIT: usize = 10_000;

/// Value of `next` that matches no frame: the next add opens a range.
const NONE: u64 = u64::MAX;

/// A gather: the ranges so far, and which steps are still to be done for them.
#[derive(Debug)]
pub struct MmuGather {
    active: Batch,
    /// Full batches, which come before the active one, in order.
    full: Vec<Batch>,
    /// Empty batches for reuse; each has the capacity of one page.
    spare: Vec<Batch>,
    /// Number of the frame that would extend the last range.
    next: u64,
    /// Number of the frame after the last frame of the open range's folio.
    limit: u64,
    /// Index of the first batch with ranges whose rmap is still to be removed, and index of the
    /// first such range in it.
    rmap_pend: (usize, usize),
    /// Maximum number of batches in addition to the first, small one; tests set a low number.
    batch_limit: usize,
    tlb_flushed: bool,
}

impl Default for MmuGather {
    fn default() -> Self {
        Self::with_batch_limit(GATHER_LIMIT / usize::from(PAGE_BATCH))
    }
}

impl MmuGather {
    /// Makes a gather with at most `limit` batches in addition to the first, small one.
    #[must_use]
    pub fn with_batch_limit(limit: usize) -> Self {
        Self {
            active: Batch::new(BUNDLE),
            full: Vec::new(),
            spare: Vec::new(),
            next: NONE,
            limit: 0,
            rmap_pend: (0, 0),
            batch_limit: limit,
            tlb_flushed: false,
        }
    }

    /// Adds `frame`, whose page-table entry was just cleared. Returns whether the caller must flush
    /// now.
    #[inline]
    pub fn add(&mut self, frames: &Frames, frame: u64) -> bool {
        self.tlb_flushed = false;
        if frame == self.next {
            self.extend_to(frame + 1);
            return false;
        }
        self.open(frames.find(frame), frame, 1)
    }

    /// Does what [`Self::add`] does, for a frame that is the last one of its folio, `found`.
    #[inline]
    pub fn add_last(&mut self, found: Found, frame: u64) -> bool {
        debug_assert_eq!(found.left, 1, "the last page of its folio");
        if frame == self.next {
            return self.add_range(found, frame, 1).1;
        }
        self.tlb_flushed = false;
        self.open(Found { left: 1, ..found }, frame, 1)
    }

    /// Adds `nr` frames from `start` on, all of the folio `found`, whose consecutive page-table
    /// entries were just cleared. The effect is that of calls of [`Self::add`]. Returns how many
    /// frames were added, and whether the caller must flush before it adds the others.
    #[inline(always)]
    pub fn add_range(&mut self, found: Found, start: u64, nr: u32) -> (u32, bool) {
        debug_assert!(nr > 0 && nr <= found.left, "a range lies in one folio");
        self.tlb_flushed = false;
        if start == self.next {
            self.extend_to(start + u64::from(nr));
            return (nr, false);
        }
        // The last range of a batch has only one page (I4).
        let nr = if self.active.room() > 1 { nr } else { 1 };
        (nr, self.open(found, start, nr))
    }

    /// Sets the end of the last range, and closes the range if its folio ends there.
    #[inline]
    fn extend_to(&mut self, end: u64) {
        self.next = end;
        if end == self.limit {
            self.close();
        }
    }

    /// Closes the open range, if there is one, so that it does not grow.
    #[inline]
    fn close(&mut self) {
        if self.next != NONE {
            self.active.end_at(self.next);
            self.next = NONE;
        }
    }

    /// Opens a range of `nr` frames from `start` on. Returns whether the caller must flush now.
    #[inline]
    fn open(&mut self, found: Found, start: u64, nr: u32) -> bool {
        self.close();
        let folio = found.folio;
        self.active.push(Entry { start, nr, folio });
        if nr < found.left {
            self.next = start + u64::from(nr);
            self.limit = start + u64::from(found.left);
        }
        self.active.is_full() && !self.next_batch()
    }

    /// Replaces the full active batch by an empty one; closes its last range. Returns false if
    /// there may be no more batches.
    #[cold]
    fn next_batch(&mut self) -> bool {
        if self.full.len() >= self.batch_limit {
            return false;
        }
        let fresh = self.spare.pop();
        let fresh = fresh.unwrap_or_else(|| Batch::new(PAGE_BATCH));
        self.close();
        self.full.push(core::mem::replace(&mut self.active, fresh));
        true
    }

    /// Returns the batches in use, in order.
    fn batches(&self) -> impl Iterator<Item = &Batch> + '_ {
        self.full.iter().chain([&self.active])
    }

    /// Removes the rmap of all pages added since the last call. To be called before the page-table
    /// lock is dropped. If a dirty file page was added, it must be called after a TLB flush.
    pub fn flush_rmaps(&mut self, frames: &mut Frames) {
        // No page may be added to a range whose rmap was removed.
        self.close();
        let (batch, first) = self.rmap_pend;
        for (n, pending) in self.batches().enumerate().skip(batch) {
            let skip = if n == batch { first } else { 0 };
            let dirty = frames.remove_rmap_ranges(&pending.entries()[skip..]);
            assert!(
                !dirty || self.tlb_flushed,
                "a dirty file page before its TLB flush"
            );
        }
        self.rmap_pend = (self.full.len(), self.active.entries().len());
    }

    /// Records that the caller has flushed the TLB, which then has no translation of the pages
    /// added so far. (This function flushes nothing.)
    pub const fn flush_tlb(&mut self) {
        self.tlb_flushed = true;
    }

    /// Releases all gathered pages, in chunks; calls `yielded` between them.
    #[inline(never)]
    pub fn flush(&mut self, frames: &mut Frames, mut yielded: impl FnMut(usize)) {
        self.flush_tlb();
        self.flush_rmaps(frames);
        for batch in self.batches() {
            frames.free_in_chunks(batch.entries(), &mut yielded);
        }
        self.active.clear();
        while let Some(before) = self.full.pop() {
            let page_sized = core::mem::replace(&mut self.active, before);
            self.spare.push(page_sized);
            self.active.clear();
        }
        self.rmap_pend = (0, 0);
    }

    /// Returns all ranges, in the order of the adds.
    pub fn ranges(&self) -> impl Iterator<Item = FrameRange> + '_ {
        let end_of_last = (self.next != NONE).then_some(self.next);
        let (last, closed) = match (self.active.entries().split_last(), end_of_last) {
            (Some((last, closed)), Some(end)) => (Some((last, end)), closed),
            _ => (None, self.active.entries()),
        };
        let closed = self.full.iter().flat_map(Batch::entries).chain(closed);
        let open = last.map(|(last, end)| FrameRange {
            start: last.start,
            end,
        });
        closed.map(Entry::range).chain(open)
    }

    /// Returns the number of the frame where the open range must end; `None` if no range is open.
    #[must_use]
    pub fn range_limit(&self) -> Option<u64> {
        (self.next != NONE).then_some(self.limit)
    }

    /// Returns the number of ranges in the active batch, and the number of batches in use.
    #[must_use]
    pub fn fill(&self) -> (usize, usize) {
        (self.active.entries().len(), self.full.len() + 1)
    }

    /// Asserts the invariants I2 to I5.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self, frames: &Frames) {
        let entries = self.batches().flat_map(Batch::entries);
        for (entry, range) in entries.zip(self.ranges()) {
            let found = frames.find(range.start);
            assert!(range.start < range.end, "I2: {range:?}");
            let left = range.start + u64::from(found.left);
            assert!(range.end <= left, "I2: {range:?}");
            assert_eq!(entry.folio, found.folio, "I2: {range:?}");
        }
        for (n, batch) in self.full.iter().enumerate() {
            let last = batch.entries().last();
            assert!(batch.is_full(), "I3: batch {n}");
            assert!(last.is_some_and(|last| last.nr == 1), "I4: batch {n}");
        }
        let unused = self.spare.iter().all(|batch| batch.entries().is_empty());
        assert!(unused, "I3: a batch after the active one");
        if let Some(limit) = self.range_limit() {
            let last = self.active.entries().last();
            let open = last.is_some_and(|last| last.start < self.next && self.next < limit);
            assert!(open, "I5");
        }
    }
}

#[cfg(test)]
mod tests;
