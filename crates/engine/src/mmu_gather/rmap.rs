//! Removing the reverse mapping of a range of one folio. spec: mmu-gather.md 4.

use super::frames::{Frames, slot};
use super::{FrameKind, FrameRange};

impl Frames {
    /// Unmaps each page of `range` once; the folio's count, the statistics and the deferred-split
    /// queue are looked at once for all of them.
    ///
    /// # Panics
    /// When a page was not mapped: somebody's books are wrong.
    #[inline]
    pub fn remove_rmap_range(&mut self, range: FrameRange) {
        if range.end - range.start == 1 {
            self.remove_rmap_page(range.start);
        } else {
            self.remove_rmap_of_many(range);
        }
    }

    fn remove_rmap_of_many(&mut self, range: FrameRange) {
        let counts = &mut self.mapcount[slot(range.start)..slot(range.end)];
        let (eights, rest) = counts.as_chunks_mut::<8>();
        let (mut unmapped, mut wrong) = drop_mappings(rest);
        for eight in eights {
            let (more, also) = drop_mappings(eight);
            (unmapped, wrong) = (unmapped + more, wrong + also);
        }
        assert!(wrong == 0, "unmapped more often than mapped");
        let folio = self.folio_mut(range.start);
        folio.mapped -= unmapped;
        let (kind, left) = (folio.kind, folio.mapped);
        let split = kind == FrameKind::Anon && folio.nr > 1 && unmapped > 0 && left > 0;
        let queued = split && !folio.deferred_split;
        folio.deferred_split |= split;
        self.stats.mapcount_ops += 1;
        self.stats.deferred_splits += u64::from(queued);
        self.stats.mapped[Self::stat_of(kind)] -= i64::from(unmapped);
    }
}

/// Unmaps pages once each; returns how many are mapped no longer, and how many were not. Without a
/// branch for each page, so that several are done at once.
#[inline]
fn drop_mappings(counts: &mut [u32]) -> (u32, u32) {
    let (mut unmapped, mut wrong) = (0, 0);
    for count in counts {
        wrong += u32::from(*count == 0);
        unmapped += u32::from(*count == 1);
        *count = count.wrapping_sub(1);
    }
    (unmapped, wrong)
}
