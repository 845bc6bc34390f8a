//! Reclaim: from "so many pages are wanted" to pages that have left. The kernel's mm/vmscan.c.
//!
//! A lruvec is shrunk in three phases, so that nothing is held while memory is written:
//! 1. **isolate** (engine): the coldest pages come off the lists;
//! 2. **page out** ([`Memory`]): each leaves, or does not, for a reason that is data;
//! 3. **put back or forget** (engine): what left becomes a shadow, the rest is listed again.
//!
//! Phases 2 and 3 are one function (`batch.rs`), whoever isolated: generations by size
//! (`shrink.rs`) or by age (`by_age.rs`), or the classic lists (`classic.rs`).
//!
//! Invariant: a page that phase 1 isolated is, after phase 3, listed, off the lists as unevictable, a shadow, or gone;
//! it is charged until it has left.

mod batch;
mod by_age;
mod classic;
mod scan_control;
mod settle;
mod shrink;
mod watermark;

pub(crate) use batch::Batch;
pub use by_age::{ByAgeVisit, shrink_by_age};
pub use scan_control::{Kept, ScanControl, ScanReduction, Share, Shrunk, TryAgain};
pub use settle::Settled;
pub use shrink::{shrink_lruvec, usable_swappiness};
pub use watermark::{WATERMARK_SCALE_FACTOR, Watermarks, min_free_kbytes};

pub use crate::units::SWAP_CLUSTER_MAX;
pub use crate::vmstat::ScanReason;

use crate::folio::FolioId;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use alloc::vec::Vec;

/// What became of one isolated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOut {
    /// Its bytes are safe in swap, or in its file, and it has left memory.
    Stored,
    /// The same, by another's hand and before it was asked for: the kernel's own reclaim. It is nobody's success.
    Taken,
    /// It was accessed meanwhile.
    Referenced,
    /// Reclaim by age asked for pages that were idle for longer: it stays where it was.
    TooYoung,
    /// Others map it, too, and the kernel skips such pages.
    Shared,
    /// It is locked in memory.
    Locked,
    /// It cannot leave by our hand for now: it goes off the lists, as locked pages do, until it is to be tried again
    /// ([`Lruvec::rescue`]), and does not count as scanned.
    Unevictable,
    /// Its program gave it back (`MADV_FREE`): it is the kernel's to free, without storing it.
    LazyFree,
    /// Swap is full or absent: no anon page can go, this one least of all.
    NoSwap,
    /// It did not leave, and the reason is unknown.
    Busy,
    /// Its program removed it.
    Gone,
}

/// What the engine needs of the memory of all tenants; simulated and real memory implement it.
pub trait Memory {
    /// Tells `lruvec`, which is that of `memcg`, which pages were accessed since the last walk, either
    /// one by one ([`Lruvec::young`]) or, where the accessed bits are in the words, all at once
    /// ([`Lruvec::walk_accessed`], or [`Lruvec::walk_recent`] where there are mappings without recency).
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec);

    /// [`Self::walk`] that leaves nothing out (`force_scan`), where a walk may: ages are to be
    /// reported.
    fn walk_all(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.walk(memcg, lruvec);
    }

    /// Whether what maps page `id` of `memcg` has recency (`vma_has_recency`), so that the accessed bit
    /// that [`Lruvec::touch`] set means anything. Asked at each look, never remembered: advice takes
    /// effect at once. By default all have. spec: reclaim-control.md 6.1.
    fn has_recency(&self, _memcg: MemcgId, _id: FolioId) -> bool {
        true
    }

    /// The page-out that has just been found pages in use: the place to tell `lruvec` which of their neighbours
    /// are young ([`Lruvec::young_beside`]). The kernel looks at the neighbours as soon as it meets such a page: one of the
    /// same batch that it meets later is in use without another look. By default nobody looks.
    /// spec: lru-gen.md 7.
    fn look_around(&mut self, _memcg: MemcgId, _lruvec: &mut Lruvec, _reason: ScanReason) {}

    /// Asked between two batches and between two memcgs: whether whoever reclaims is wanted elsewhere. A reclaim that can
    /// be resumed ([`crate::machine::Ongoing`]) bails out then. By default never.
    fn wants_pause(&mut self) -> bool {
        false
    }

    /// Pages out `batch` of `memcg`, and appends what became of each page to `outcome`, in the same
    /// order.
    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>);
}
