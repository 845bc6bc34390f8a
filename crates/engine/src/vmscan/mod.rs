//! Reclaim: from a number of pages wanted to evicted pages. The kernel's mm/vmscan.c.
//!
//! Pages are reclaimed from a lruvec in three phases, so that nothing is locked while memory is
//! written:
//! 1. **isolate** (engine): the coldest pages come off the lists;
//! 2. **page out** ([`Memory`]): each page is evicted, or stays; [`PageOut`] says why;
//! 3. **put back or forget** (engine): evicted pages become shadows, the others are listed again.
//!
//! Phases 2 and 3 are one function (`batch.rs`), however pages were isolated: from generations by
//! size (`shrink.rs`) or by age (`by_age.rs`), or from the classic lists (`classic.rs`).
//!
//! Invariant: a page that phase 1 isolated is, after phase 3, listed, off the lists as unevictable,
//! a shadow, or gone; it is charged until it is evicted.

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
    /// The same, but kernel reclaim took the page before this page-out: it does not count as
    /// reclaimed by the engine.
    Taken,
    /// The page stays because it was accessed meanwhile.
    Referenced,
    /// The page stays where it was: reclaim by age wants pages that were idle for longer.
    TooYoung,
    /// The page stays because other processes map it, too; the kernel skips such pages.
    Shared,
    /// The page stays because it is locked in memory.
    Locked,
    /// The manager cannot evict the page for now. It goes off the lists, as locked pages do, until
    /// [`Lruvec::rescue`] puts it back for another try, and does not count as scanned.
    Unevictable,
    /// The page stays because it is lazyfree (`MADV_FREE`): the kernel frees it without storing it.
    LazyFree,
    /// The page stays because swap is full or absent: no anon page can be evicted.
    NoSwap,
    /// The page stays for an unknown reason.
    Busy,
    /// The page is gone: its program removed it.
    Gone,
}

/// What the engine needs of the memory of all tenants; simulated and real memory implement it.
pub trait Memory {
    /// Reports to `lruvec`, which is that of `memcg`, which pages were accessed since the last
    /// walk.
    ///
    /// An implementation calls [`Lruvec::young`] for each page. If the accessed bits are in the
    /// lruvec, it calls [`Lruvec::walk_accessed`], or [`Lruvec::walk_recent`] if some mappings have
    /// no recency.
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec);

    /// Like [`Self::walk`], but skips no ranges (the kernel's `force_scan`), because ages are to be
    /// reported.
    fn walk_all(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.walk(memcg, lruvec);
    }

    /// Whether the VMA that maps page `id` of `memcg` has recency (`vma_has_recency`): only then
    /// does the accessed bit set by [`Lruvec::touch`] count. Called each time the bit is read, and
    /// never cached, so that madvise takes effect at once. By default all pages have recency.
    /// spec: reclaim-control.md 6.1.
    fn has_recency(&self, _memcg: MemcgId, _id: FolioId) -> bool {
        true
    }

    /// Called after a page-out that found pages in use, to report to `lruvec` which of their
    /// neighbours are young ([`Lruvec::young_neighbour`]). The kernel checks the neighbours as soon
    /// as it meets such a page, so a neighbour later in the same batch is then known to be in use.
    /// By default does nothing.
    /// spec: lru-gen.md 7.
    fn look_around(&mut self, _memcg: MemcgId, _lruvec: &mut Lruvec, _reason: ScanReason) {}

    /// Whether reclaim must pause, because the caller wants to do other work. Called between two
    /// batches and between two memcgs; a reclaim that can be resumed ([`crate::machine::Ongoing`])
    /// then bails out. By default false.
    fn wants_pause(&mut self) -> bool {
        false
    }

    /// Pages out `batch`, which are pages of `memcg`, and appends the outcome of each to `outcome`,
    /// in order.
    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>);
}
