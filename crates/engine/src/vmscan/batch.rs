//! Page-out of one batch of isolated pages, and the handling of each page's outcome: phases 2 and 3
//! of reclaim.
//!
//! Invariant: after [`Batch::page_out`] no page of the batch is isolated any more.

use super::{Memory, PageEnd, PageOut, ScanControl, Shrunk};
use crate::folio::FolioId;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use alloc::vec::Vec;

/// Isolated pages and their outcomes. The buffers are reused for the next batch.
pub(crate) struct Batch {
    pub(crate) pages: Vec<FolioId>,
    outcome: Vec<PageOut>,
}

impl Batch {
    /// Creates an empty batch with buffers for `nr` pages, so that they need not grow.
    pub(crate) fn with_capacity(nr: usize) -> Self {
        Self {
            pages: Vec::with_capacity(nr),
            outcome: Vec::with_capacity(nr),
        }
    }

    /// Pages out the evictable pages of the batch, then finishes each page: evicted, put back or
    /// forgotten. Returns the counts of the batch; the caller adds the number of pages scanned.
    pub(crate) fn page_out<M: Memory>(
        &mut self,
        (memcg, lruvec): (MemcgId, &mut Lruvec),
        sc: &ScanControl,
        memory: &mut M,
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        // Isolation from the classic lists has already checked the accessed bits.
        let by_generations = lruvec.multi_gen().is_some();
        if by_generations {
            let has_recency = |id| memory.has_recency(memcg, id);
            shrunk.kept.referenced = lruvec.keep_referenced(&mut self.pages, has_recency);
        }
        shrunk.unswapped = lruvec.keep_unswappable(&mut self.pages, sc.most_out);
        self.outcome.clear();
        if self.pages.is_empty() {
            return shrunk;
        }
        memory.page_out(memcg, &self.pages, &mut self.outcome);
        assert_eq!(self.pages.len(), self.outcome.len(), "one outcome a page");
        if by_generations {
            memory.look_around(memcg, lruvec, sc.reason);
        }
        for (&id, &outcome) in self.pages.iter().zip(&self.outcome) {
            shrunk.no_swap |= outcome == PageOut::NoSwap;
            let end = lruvec.finish_page(id, outcome, sc.reason);
            count(&mut shrunk, outcome, end);
        }
        shrunk
    }
}

fn count(shrunk: &mut Shrunk, outcome: PageOut, end: PageEnd) {
    match end {
        PageEnd::Left => shrunk.reclaimed.0 += 1,
        PageEnd::Forgotten | PageEnd::Taken => shrunk.forgotten.0 += 1,
        PageEnd::NotIsolated => {}
        PageEnd::Stayed => match outcome {
            PageOut::Shared => shrunk.kept.shared += 1,
            PageOut::Unevictable => shrunk.unevictable += 1,
            PageOut::Locked => shrunk.kept.locked += 1,
            PageOut::LazyFree => shrunk.kept.lazyfree += 1,
            PageOut::Referenced | PageOut::TooYoung => shrunk.kept.referenced += 1,
            PageOut::NoSwap => shrunk.unswapped += 1,
            PageOut::Busy | PageOut::Stored | PageOut::Taken | PageOut::Gone => {
                shrunk.kept.busy += 1;
            }
        },
    }
}
