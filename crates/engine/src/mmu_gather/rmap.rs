//! Removing the reverse mapping of a range of one folio. spec: mmu-gather.md 4.

use super::frames::{Frames, slot};
use super::{FrameKind, FrameRange};

impl Frames {
    /// Unmaps each page of `range` once; the folio's count, the statistics and the deferred-split
    /// queue are looked at once for all of them.
    ///
    /// # Panics
    /// When a page was not mapped: somebody's books are wrong.
    pub fn remove_rmap_range(&mut self, range: FrameRange) {
        let mut unmapped = 0;
        for count in &mut self.mapcount[slot(range.start)..slot(range.end)] {
            assert!(*count > 0, "unmapped more often than mapped");
            *count -= 1;
            unmapped += u32::from(*count == 0);
        }
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
