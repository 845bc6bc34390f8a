//! Page-out of one batch of isolated pages, and what follows for each page: the second and the
//! third phase of reclaim.
//!
//! Invariant: once a batch has been paged out, none of its pages is isolated any more.

use super::{Memory, PageEnd, PageOut, ScanControl, Shrunk};
use crate::folio::FolioId;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use alloc::vec::Vec;

/// Isolated pages, and a buffer for the outcome of each. The buffers are used again for the next
/// batch.
pub(crate) struct Batch {
    pub(crate) pages: Vec<FolioId>,
    outcome: Vec<PageOut>,
}

impl Batch {
    /// Creates an empty batch with buffers for `nr` pages, which are otherwise reallocated as they
    /// grow.
    pub(crate) fn with_room(nr: usize) -> Self {
        Self {
            pages: Vec::with_capacity(nr),
            outcome: Vec::with_capacity(nr),
        }
    }

    /// Pages out the evictable pages of the batch, then finishes each page: evicted, put back or
    /// forgotten. Returns the counts, without the pages scanned.
    pub(crate) fn page_out<M: Memory>(
        &mut self,
        (memcg, lruvec): (MemcgId, &mut Lruvec),
        sc: &ScanControl,
        memory: &mut M,
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        // Isolation by the classic lists has checked the accessed bits already.
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
        for (&id, &what) in self.pages.iter().zip(&self.outcome) {
            shrunk.no_swap |= what == PageOut::NoSwap;
            let settled = lruvec.finish_page(id, what, sc.reason);
            count(&mut shrunk, what, settled);
        }
        shrunk
    }
}

fn count(shrunk: &mut Shrunk, what: PageOut, settled: PageEnd) {
    match settled {
        PageEnd::Left => shrunk.reclaimed.0 += 1,
        PageEnd::Forgotten | PageEnd::Taken => shrunk.forgotten.0 += 1,
        PageEnd::NotIsolated => {}
        PageEnd::Stayed => match what {
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
