//! Reclaim: from "so many pages are wanted" to pages that have left. The kernel's mm/vmscan.c.
//!
//! A lruvec is shrunk in three phases, so that nothing is held while memory is written:
//! 1. **isolate** (engine): the coldest pages come off the lists;
//! 2. **page out** ([`Memory`]): each leaves, or does not, for a reason that is data;
//! 3. **put back or forget** (engine): what left becomes a shadow, the rest is listed again.

mod drivers;
mod scan_control;
mod shrink;
mod watermark;

pub use drivers::{Oom, SWAP_CLUSTER_MAX, TryAgain};
pub use scan_control::{ScanControl, ScanReason, Shrunk};
pub use shrink::{Settled, shrink_lruvec, usable_swappiness};
pub use watermark::{Kswapd, KswapdStep, WATERMARK_SCALE_FACTOR, Watermarks, min_free_kbytes};

use crate::folio::FolioId;
use crate::lruvec::Lruvec;
use alloc::vec::Vec;

/// What became of one isolated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOut {
    /// Its bytes are safe in the store and it has left memory.
    Stored,
    /// It was accessed meanwhile.
    Referenced,
    /// It could not go now: shared, pinned, no space.
    Busy,
    /// Its program removed it.
    Gone,
}

/// What the engine needs of memory; simulated and real memory implement it.
pub trait Memory {
    /// Tells `lruvec` which pages were accessed since the last walk, either one by one
    /// ([`Lruvec::young`]) or, where the accessed bits are in the words, all at once
    /// ([`Lruvec::walk_accessed`]).
    fn walk(&mut self, lruvec: &mut Lruvec);

    /// Eviction found the pages of `young` in use, and has just learned it from their page tables:
    /// the place to look at their neighbours and to tell `lruvec` which are young ([`Lruvec::young`]).
    /// By default nobody looks. spec: lru-gen.md 7.
    fn look_around(&mut self, _lruvec: &mut Lruvec, _young: &[FolioId]) {}

    /// Pages out `batch`, and appends what became of each page to `outcome`, in the same order.
    fn page_out(&mut self, batch: &[FolioId], outcome: &mut Vec<PageOut>);
}
