//! Drops the references of a chunk of ranges, and frees the folios that have no reference left.
//! spec: mmu-gather.md 5.
//!
//! Invariant (I9): the LRU lock is held for at most 32 folios, and never while a large folio is
//! destroyed.

use super::batch::Entry;
use super::counters::MapCounts;
use super::frames::{FolioInfo, Frame, Frames, ReleaseStats, slot};
use super::{CHUNK, FrameKind};
use engine::units::SWAP_CLUSTER_MAX;

/// A model of the LRU lock: the lruvec for which it is held, and the number of steps since it was
/// taken. For a large folio it is taken and dropped separately.
struct LruLock {
    /// The lruvec for which the lock is held, or [`NO_LRUVEC`].
    lruvec: u64,
    steps: u32,
    /// How often the lock was taken; and (`longest`) the maximum number of steps while it was held,
    /// up to the last folio that needed it.
    locks: u64,
    longest: u32,
}

const NO_LRUVEC: u64 = u64::MAX;

impl Default for LruLock {
    fn default() -> Self {
        Self {
            lruvec: NO_LRUVEC,
            steps: 0,
            locks: 0,
            longest: 0,
        }
    }
}

/// All folios, without the table of frames.
struct Folios<'a> {
    folios: &'a mut [FolioInfo],
    mapcount: &'a MapCounts,
    stats: &'a mut ReleaseStats,
}

impl Folios<'_> {
    /// Tries to free the swap cache of each folio once, which succeeds if the folio is not mapped.
    #[inline]
    fn try_free_swap_caches(&mut self, folios: impl Iterator<Item = u32>) {
        for folio in folios {
            let folio = &mut self.folios[folio as usize];
            if folio.swap_cache {
                folio.swap_cache = folio.is_mapped(self.mapcount);
                self.stats.swap_cache_tries += 1;
            }
        }
    }

    /// Drops references; each item is a folio and a number of references. Folios without references
    /// are freed; all of them are uncharged in one call.
    #[inline]
    fn release(&mut self, held: impl Iterator<Item = (u32, u32)>) {
        let (mut lock, mut pages, mut updates, mut kept) = (LruLock::default(), 0, 0, 0);
        for (folio, refs) in held {
            let folio = &mut self.folios[folio as usize];
            lock.step();
            if folio.kind.is_special() {
                lock.release();
                folio.put_special(refs, self.stats);
                continue;
            }
            updates += 1;
            if !folio.refcount.put(refs) {
                kept += 1;
                continue;
            }
            if folio.nr == 1 {
                lock.take_off_lru(folio);
            } else {
                lock.release();
                lock.locks += u64::from(folio.lruvec.take().is_some());
            }
            if folio.mlocked {
                folio.mlocked = false;
                self.stats.munlocked += 1;
            }
            folio.deferred_split = false;
            folio.swap_cache = false;
            pages += u64::from(folio.nr);
        }
        lock.add_to(self.stats);
        self.stats.refcount_ops += updates;
        self.stats.freed += updates - kept;
        self.stats.freed_pages += pages;
        self.stats.uncharges += u64::from(updates > kept);
    }
}

impl Frames {
    fn parts(&mut self) -> (&[Frame], Folios<'_>) {
        let folios = Folios {
            folios: &mut self.folios,
            mapcount: &self.mapcount,
            stats: &mut self.stats,
        };
        (&self.frames, folios)
    }

    /// Releases a batch of ranges, in chunks; after each chunk calls `yielded` with its number of
    /// ranges.
    pub(super) fn free_in_chunks(&mut self, batch: &[Entry], yielded: &mut impl FnMut(usize)) {
        for chunk in batch.chunks(CHUNK) {
            self.free_ranges(chunk);
            yielded(chunk.len());
        }
    }

    /// Releases one chunk of ranges.
    pub(super) fn free_ranges(&mut self, ranges: &[Entry]) {
        let (_, mut folios) = self.parts();
        folios.try_free_swap_caches(ranges.iter().map(|range| range.folio));
        folios.release(ranges.iter().map(|range| (range.folio, range.nr)));
    }

    /// Releases one chunk of pages, each separately.
    pub fn free_pages(&mut self, pages: &[u64]) {
        let (frames, mut folios) = self.parts();
        let found = pages.iter().map(|&frame| frames[slot(frame)].folio);
        folios.try_free_swap_caches(found.clone());
        folios.release(found.map(|folio| (folio, 1)));
    }
}

impl LruLock {
    /// Counts a step, and drops the lock after every 32 steps.
    #[inline]
    const fn step(&mut self) {
        self.steps += 1;
        if self.steps as u64 == SWAP_CLUSTER_MAX {
            self.release();
        }
    }

    #[inline]
    const fn release(&mut self) {
        self.lruvec = NO_LRUVEC;
        self.steps = 0;
    }

    #[inline]
    fn take_off_lru(&mut self, folio: &mut FolioInfo) {
        let Some(lruvec) = folio.lruvec.take() else {
            return;
        };
        if self.lruvec != u64::from(lruvec) {
            self.lruvec = u64::from(lruvec);
            self.steps = 0;
            self.locks += 1;
        }
        self.longest = self.longest.max(self.steps);
    }

    fn add_to(&self, stats: &mut ReleaseStats) {
        stats.lru_locks += self.locks;
        if self.locks > 0 {
            stats.lru_lock_longest = stats.lru_lock_longest.max(self.longest + 1);
        }
    }
}

impl FolioInfo {
    #[cold]
    fn is_mapped(&self, mapcount: &MapCounts) -> bool {
        if self.nr == 1 {
            mapcount.get(slot(self.first)) > 0
        } else {
            self.mapped.get() > 0
        }
    }

    /// Drops the references of a device's folio, which belongs to a driver. Does nothing for the
    /// huge zero page, whose references are counted elsewhere.
    #[cold]
    fn put_special(&mut self, refs: u32, stats: &mut ReleaseStats) {
        if self.kind == FrameKind::Device {
            self.refcount.put(refs);
            stats.refcount_ops += 1;
        }
    }
}
