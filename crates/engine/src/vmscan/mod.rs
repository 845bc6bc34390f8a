//! Reclaim from one lruvec: turns a request for a number of pages into evicted pages, as the
//! kernel's mm/vmscan.c does.
//!
//! Pages are reclaimed in three phases, so that nothing is locked while pages are written:
//! 1. **isolate** (engine): takes the coldest pages off the lists;
//! 2. **page out** ([`Memory`]): evicts each page, or reports with [`PageOut`] why it stays;
//! 3. **put back or forget** (engine): makes evicted pages shadows, and puts the others back on
//!    lists.
//!
//! Phases 2 and 3 are one function (`batch.rs`) for all kinds of isolation: from generations for a
//! number of pages (`shrink.rs`) or by age (`by_age.rs`), or from the classic lists (`classic.rs`).
//!
//! Invariant: after phase 3 each page that phase 1 isolated is either on a list, off the lists as
//! unevictable, a shadow, or absent; it stays charged until it is evicted.

mod batch;
mod by_age;
mod classic;
mod finish_page;
mod headroom;
mod scan_control;
mod watermark;

mod shrink;

pub(crate) use batch::Batch;
pub use by_age::{ByAgeVisit, shrink_by_age};
pub use finish_page::PageEnd;
pub use headroom::{Headroom, PAGES_PER_MEASUREMENT, Wanted};
pub use scan_control::{Kept, ScanControl, ScanReduction, Share, Shrunk, TryAgain};
pub use shrink::{shrink_lruvec, usable_swappiness};
pub use watermark::{WATERMARK_SCALE_FACTOR, Watermarks, min_free_kbytes};

pub use crate::units::SWAP_CLUSTER_MAX;
pub use crate::vmstat::ScanReason;

use crate::folio::FolioId;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use alloc::vec::Vec;

/// Outcome of page-out for one isolated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOut {
    /// The page's content is safe in swap, or in its file, and the page is no longer in memory.
    Stored,
    /// As [`Self::Stored`], but kernel reclaim took the page before this page-out, so the page does
    /// not count as reclaimed by the engine.
    Taken,
    /// The page stays because it was accessed meanwhile.
    Referenced,
    /// The page keeps its place on its list: it has not been idle for as long as the reclaim by age
    /// requires.
    TooYoung,
    /// The page stays because other processes map it, too; the kernel skips such pages.
    Shared,
    /// The page stays because it is locked in memory.
    Locked,
    /// The manager cannot evict the page for now. As a locked page, the page is taken off the
    /// lists, until [`Lruvec::rescue`] puts it back for another try. It does not count as scanned.
    Unevictable,
    /// The page stays because it is lazyfree (`MADV_FREE`): the kernel frees it without storing it.
    LazyFree,
    /// The page stays because swap is full or absent: no anon page can be evicted.
    NoSwap,
    /// The page stays for an unknown reason.
    Busy,
    /// The page does not exist any more: its program removed it.
    Gone,
}

/// What the engine needs of the memory of all tenants; simulated and real memory implement it.
pub trait Memory {
    /// Reports to `lruvec`, the lruvec of `memcg`, which pages were accessed since the last walk.
    ///
    /// An implementation calls [`Lruvec::young`] for each page. If the accessed bits are in the
    /// lruvec, it calls [`Lruvec::walk_accessed`], or [`Lruvec::walk_recent`] if some mappings have
    /// no recency.
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec);

    /// Walks as [`Self::walk`] does, but skips no ranges (the kernel's `force_scan`), because a
    /// report of ages follows.
    fn walk_all(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.walk(memcg, lruvec);
    }

    /// Whether the VMA that maps page `id` of `memcg` has recency (the kernel's `vma_has_recency`).
    /// Only then does the accessed bit that [`Lruvec::touch`] sets count. The engine calls this
    /// each time it reads the bit, so that an madvise takes effect at once. By default all pages
    /// have recency.
    /// spec: reclaim-control.md 6.1.
    fn has_recency(&self, _memcg: MemcgId, _id: FolioId) -> bool {
        true
    }

    /// Reports to `lruvec` which neighbours of the accessed pages of the last page-out are young
    /// ([`Lruvec::young_neighbour`]). Called after each page-out. The kernel checks the neighbours
    /// as soon as it finds an accessed page, so that it already knows neighbours later in the same
    /// batch. By default does nothing.
    /// spec: lru-gen.md 7.
    fn look_around(&mut self, _memcg: MemcgId, _lruvec: &mut Lruvec, _reason: ScanReason) {}

    /// Whether reclaim must pause, because the caller has other work to do. Called between two
    /// batches and between two memcgs. If true, a reclaim that can be resumed
    /// ([`crate::machine::Ongoing`]) bails out: it returns with its state. By default false.
    fn wants_pause(&mut self) -> bool {
        false
    }

    /// Pages out `batch`, all pages of `memcg`, and appends the outcome of each to `outcome`, in
    /// the order of `batch`.
    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>);
}
