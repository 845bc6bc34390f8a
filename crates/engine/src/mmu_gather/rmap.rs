//! Removing the reverse mapping of ranges, each of one folio. spec: mmu-gather.md 4.

use super::FrameKind;
use super::batch::Entry;
use super::frames::{FolioInfo, Frames, slot};

impl Frames {
    /// Unmaps each page of each range once; a range's folio and the deferred-split queue are looked at
    /// once for all its pages, the statistics once for all ranges. True if a dirty file page was among
    /// them.
    ///
    /// # Panics
    /// When a page was not mapped: somebody's books are wrong.
    #[inline(never)]
    pub(super) fn remove_rmap_ranges(&mut self, ranges: &[Entry]) -> bool {
        let (mut anon, mut file, mut splits, mut dirty) = (0u32, 0u32, 0, false);
        for range in ranges {
            let first = slot(range.start);
            let folio = &mut self.folios[range.folio as usize];
            let gone = if folio.nr == 1 {
                u32::from(self.mapcount.unmap(first))
            } else {
                let gone = self.mapcount.unmap_range(first, range.nr as usize);
                if gone > 0 && folio.mapped.less(gone) > 0 && folio.kind == FrameKind::Anon {
                    splits += folio.defer_split();
                }
                gone
            };
            if folio.kind == FrameKind::Anon {
                anon += gone;
            } else {
                file += gone;
                dirty |= folio.kind == FrameKind::DirtyFile;
            }
        }
        let stats = &mut self.stats;
        stats.mapcount_ops += ranges.len() as u64;
        stats.deferred_splits += splits;
        stats.mapped[Self::stat_of(FrameKind::Anon)] -= i64::from(anon);
        stats.mapped[Self::stat_of(FrameKind::File)] -= i64::from(file);
        dirty
    }
}

impl FolioInfo {
    /// Puts a partly mapped folio on the deferred-split queue; 1 if it was not there.
    pub(super) const fn defer_split(&mut self) -> u64 {
        let queued = !self.deferred_split;
        self.deferred_split = true;
        queued as u64
    }
}
