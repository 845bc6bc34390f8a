//! The same work page by page, as before ranges: what there is to measure against, and the model
//! that the result must equal (mmu-gather.md I10).
//!
//! A batch holds page numbers, twice as many as ranges would fit; rmap, swap cache and references
//! are dealt with for each page. The LRU lock and uncharging are batched as with ranges.

use super::frames::{Frames, slot};
use super::{CHUNK, FrameKind};
use alloc::vec::Vec;

/// About so many pages may be gathered before a flush.
const GATHER_LIMIT: usize = 10_000;

/// The pages of removed page-table entries, one by one.
#[derive(Debug)]
pub struct PageGather {
    pages: Vec<u64>,
}

impl Default for PageGather {
    fn default() -> Self {
        Self {
            pages: Vec::with_capacity(GATHER_LIMIT),
        }
    }
}

impl PageGather {
    /// Adds `frame`, whose page-table entry was just cleared. True when the caller must flush now.
    #[inline]
    pub fn add(&mut self, frame: u64) -> bool {
        self.pages.push(frame);
        self.pages.len() == GATHER_LIMIT
    }

    /// Gives back all that was gathered, in chunks.
    pub fn flush(&mut self, frames: &mut Frames) {
        for &frame in &self.pages {
            frames.remove_rmap_page(frame);
        }
        for chunk in self.pages.chunks(CHUNK) {
            frames.free_pages(chunk);
        }
        self.pages.clear();
    }
}

impl Frames {
    /// Removes the rmap of one page.
    ///
    /// # Panics
    /// When it was not mapped.
    #[inline]
    pub fn remove_rmap_page(&mut self, frame: u64) {
        let gone = self.mapcount.unmap(slot(frame));
        let index = self.index(frame);
        let folio = &mut self.folios[index];
        if gone && folio.nr > 1 && folio.mapped.less(1) > 0 && folio.kind == FrameKind::Anon {
            self.stats.deferred_splits += folio.defer_split();
        }
        self.stats.mapcount_ops += 1;
        self.stats.mapped[Self::stat_of(folio.kind)] -= i64::from(gone);
    }

    /// Drops one reference, and frees the folio with the last: what a test's model does.
    #[cfg(test)]
    pub(super) fn free_page(&mut self, frame: u64) {
        self.free_pages(&[frame]);
    }
}
