//! The second and the third phase for one batch of isolated pages: page out, then put back or forget.
//!
//! Invariant: once a batch has been paged out, none of its pages is isolated any more.

use super::{Memory, PageOut, ScanControl, Settled, Shrunk};
use crate::folio::FolioId;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use alloc::vec::Vec;

/// Isolated pages, and the room for what becomes of them; kept from batch to batch.
pub(crate) struct Batch {
    pub(crate) pages: Vec<FolioId>,
    outcome: Vec<PageOut>,
}

impl Batch {
    /// Room for `nr` pages at once: grown page by page it would be allocated anew five times a visit.
    pub(crate) fn with_room(nr: usize) -> Self {
        Self {
            pages: Vec::with_capacity(nr),
            outcome: Vec::with_capacity(nr),
        }
    }

    /// Pages out what of the batch may go, and puts each page where it belongs then. The pages looked
    /// at are for the caller to count.
    pub(crate) fn page_out<M: Memory>(
        &mut self,
        (memcg, lruvec): (MemcgId, &mut Lruvec),
        sc: &ScanControl,
        memory: &mut M,
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        // Isolation by the classic lists has looked at the accessed bits already.
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
            let settled = lruvec.settle(id, what, sc.reason);
            count(&mut shrunk, what, settled);
        }
        shrunk
    }
}

fn count(shrunk: &mut Shrunk, what: PageOut, settled: Settled) {
    match settled {
        Settled::Left => shrunk.reclaimed.0 += 1,
        Settled::Forgotten | Settled::Taken => shrunk.forgotten.0 += 1,
        Settled::NotIsolated => {}
        Settled::Stayed => match what {
            PageOut::Shared => shrunk.kept.shared += 1,
            PageOut::Unevictable => shrunk.culled += 1,
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
