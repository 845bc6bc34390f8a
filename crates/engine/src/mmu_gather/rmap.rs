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
            let gone = if range.nr == 1 {
                u32::from(unmap_one(&mut self.mapcount[first]))
            } else {
                unmap_many(&mut self.mapcount[first..first + range.nr as usize])
            };
            folio.mapped -= gone;
            if folio.kind == FrameKind::Anon {
                anon += gone;
                if folio.mapped > 0 && gone > 0 {
                    splits += folio.defer_split();
                }
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

/// Unmaps a page once; true when it is mapped no longer.
#[inline]
fn unmap_one(count: &mut u32) -> bool {
    *count = count
        .checked_sub(1)
        .expect("unmapped more often than mapped");
    *count == 0
}

/// Unmaps pages once each; returns how many are mapped no longer.
#[inline]
fn unmap_many(counts: &mut [u32]) -> u32 {
    let (eights, rest) = counts.as_chunks_mut::<8>();
    let mut unmapped = 0;
    for eight in eights {
        // Most pages are mapped once.
        if eight.iter().fold(0, |any, count| any | (count ^ 1)) == 0 {
            *eight = [0; 8];
            unmapped += 8;
        } else {
            unmapped += unmap_each(eight);
        }
    }
    if rest.is_empty() {
        unmapped
    } else {
        unmapped + unmap_each(rest)
    }
}

#[cold]
#[inline(never)]
fn unmap_each(counts: &mut [u32]) -> u32 {
    counts
        .iter_mut()
        .map(|count| u32::from(unmap_one(count)))
        .sum()
}
