//! The same work page by page, as before ranges: what there is to measure against, and the model
//! that the result must equal (mmu-gather.md I10).

use super::frames::Frames;
use super::{FrameKind, FrameRange};

impl Frames {
    /// Removes the rmap of one page.
    pub fn remove_rmap_page(&mut self, frame: u64) {
        self.remove_rmap_range(FrameRange {
            start: frame,
            end: frame + 1,
        });
    }

    /// Drops one reference, and frees the folio with the last.
    pub fn free_page(&mut self, frame: u64) {
        self.try_free_swap_cache(frame);
        let folio = self.folio_mut(frame);
        if folio.kind == FrameKind::HugeZero {
            return;
        }
        folio.refcount = folio.refcount.checked_sub(1).expect("a reference to drop");
        let freed = folio.refcount == 0 && folio.kind != FrameKind::Device;
        self.stats.refcount_ops += 1;
        if freed {
            let on_lru = self.folio_mut(frame).lruvec.take().is_some();
            self.stats.lru_locks += u64::from(on_lru);
            self.stats.uncharges += 1;
            self.free(frame);
        }
    }
}
