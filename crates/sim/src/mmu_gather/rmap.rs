//! Removes the reverse mapping (rmap) of ranges, each of which is in one folio. spec: mmu-gather.md
//! 4.

use super::FrameKind;
use super::batch::Entry;
use super::counters::{Lanes, MapCounts, still_mapped};
use super::frames::{FolioInfo, Frames, slot};

/// One visited folio, in the upper half of a count in [`ByKind`].
const VISITED: u64 = 1 << 32;

/// For each kind of memory: folios visited (upper half), and pages no longer mapped (lower half).
type ByKind = [u64; FrameKind::COUNT];

impl Frames {
    /// Unmaps each page of each range once. For each range, reads the folio and updates the
    /// deferred-split queue once; updates the statistics once for all ranges. Returns whether a
    /// dirty file page was among the pages.
    ///
    /// # Panics
    /// If a page was not mapped: then a map count is wrong.
    #[inline(never)]
    pub(super) fn remove_rmap_ranges(&mut self, ranges: &[Entry]) -> bool {
        // First counts all pages as no longer mapped. This pass also loads the folios into the
        // processor's cache; in the second pass, atomic operations prevent the processor from
        // loading the next folio early.
        let mut by_kind = [0; FrameKind::COUNT];
        for range in ranges {
            let folio = &self.folios[range.folio as usize];
            by_kind[folio.kind as usize] += VISITED | u64::from(range.nr);
        }
        let (mut singles, mut splits) = (Lanes::default(), 0);
        for range in ranges {
            let folio = &mut self.folios[range.folio as usize];
            if folio.nr > 1 {
                let mapped = unmap_large(&self.mapcount, folio, range, &mut splits);
                by_kind[folio.kind as usize] -= u64::from(mapped);
            } else if !singles.take(slot(range.start)) {
                self.unmap_singles(&mut by_kind, singles);
                singles = Lanes::of(slot(range.start));
            }
        }
        self.unmap_singles(&mut by_kind, singles);
        let stats = &mut self.stats;
        stats.mapcount_ops += ranges.len() as u64;
        stats.deferred_splits += splits;
        for kind in FrameKind::ALL {
            let gone = by_kind[kind as usize] % VISITED;
            stats.mapped[Self::stat_of(kind)] -= gone.cast_signed();
        }
        by_kind[FrameKind::DirtyFile as usize] > 0
    }

    /// Unmaps the frames `singles`, whose map counts share a word; subtracts from `by_kind` those
    /// that are still mapped.
    #[inline]
    fn unmap_singles(&self, by_kind: &mut ByKind, singles: Lanes) {
        if singles.ones == 0 {
            return;
        }
        let before = self.mapcount.unmap_lanes(singles);
        if let Some(before) = before {
            self.subtract_still_mapped(by_kind, singles, before);
        }
    }

    #[cold]
    #[inline(never)]
    fn subtract_still_mapped(&self, by_kind: &mut ByKind, singles: Lanes, before: u64) {
        for frame in still_mapped(singles.word, singles.ones, before) {
            let folio = &self.folios[self.frames[frame].folio as usize];
            by_kind[folio.kind as usize] -= 1;
        }
    }
}

/// Unmaps pages of a large folio once each; returns how many of them are still mapped.
#[inline]
fn unmap_large(
    mapcount: &MapCounts,
    folio: &mut FolioInfo,
    range: &Entry,
    splits: &mut u64,
) -> u32 {
    let mapped = mapcount.unmap_range(slot(range.start), range.nr);
    let gone = range.nr - mapped;
    if gone > 0 && folio.mapped.less(gone) > 0 && folio.kind == FrameKind::Anon {
        *splits += folio.defer_split();
    }
    mapped
}

impl FolioInfo {
    /// Puts a partly mapped folio on the deferred-split queue; returns 1 if it was not on the queue
    /// before, otherwise 0.
    pub(super) const fn defer_split(&mut self) -> u64 {
        let queued = !self.deferred_split;
        self.deferred_split = true;
        queued as u64
    }
}
