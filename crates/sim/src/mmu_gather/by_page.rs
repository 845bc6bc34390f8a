//! Gathers and releases page by page, as the kernel did before ranges: the baseline for
//! measurements, and the model whose result the ranges must equal (mmu-gather.md I10).
//!
//! A batch has page numbers, twice as many as it would have ranges. Rmap, swap cache and references
//! are updated for each page; the LRU lock and uncharging are batched, as with ranges.

use super::frames::{Frames, slot};
use super::{CHUNK, FrameKind};

/// Approximate number of pages that may be gathered before a flush.
const GATHER_LIMIT: usize = 10_000;

/// The gathered pages of removed page-table entries, each separate.
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
    /// Adds `frame`, whose page-table entry was just cleared. Returns whether the caller must flush
    /// now.
    #[inline]
    pub fn add(&mut self, frame: u64) -> bool {
        self.pages.push(frame);
        self.pages.len() == GATHER_LIMIT
    }

    /// Releases all gathered pages, in chunks.
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
    /// If the page was not mapped.
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

    /// Drops one reference, and frees the folio if it was the last. Used by the model of a test.
    #[cfg(test)]
    pub(super) fn free_page(&mut self, frame: u64) {
        self.free_pages(&[frame]);
    }
}
