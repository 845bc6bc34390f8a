//! Dropping the references of a chunk of ranges, and freeing what nobody holds any more.
//! spec: mmu-gather.md 5.
//!
//! Invariant (I9): the LRU lock is held for at most 32 folios, and never across the destruction of
//! a large one.

use super::frames::{FolioInfo, Frames, ReleaseStats};
use super::{FrameKind, FrameRange};
use crate::vmscan::SWAP_CLUSTER_MAX;

/// The LRU lock, as far as it matters here: whose it is and for how many steps.
#[derive(Default)]
pub(super) struct LruLock {
    lruvec: Option<u32>,
    steps: u32,
}

impl Frames {
    /// Releases `ranges`: all that are freed are uncharged in one call.
    pub fn free_ranges(&mut self, ranges: &[FrameRange]) {
        for range in ranges {
            self.try_free_swap_cache(range.start);
        }
        let (mut lock, mut freed) = (LruLock::default(), 0);
        for range in ranges {
            freed += u64::from(self.release_range(*range, &mut lock));
        }
        self.stats.uncharges += u64::from(freed > 0);
    }

    /// One try a range: the condition is the folio's.
    #[inline]
    pub(super) fn try_free_swap_cache(&mut self, frame: u64) {
        let folio = self.folio_mut(frame);
        if folio.swap_cache {
            folio.swap_cache = folio.mapped > 0;
            self.stats.swap_cache_tries += 1;
        }
    }

    /// Drops the references of `range` with one update; true when the folio was freed.
    #[inline]
    pub(super) fn release_range(&mut self, range: FrameRange, lock: &mut LruLock) -> bool {
        lock.step();
        let refs = u32::try_from(range.end - range.start).expect("a range lies in one folio");
        let index = self.index(range.start);
        let (folio, stats) = (&mut self.folios[index], &mut self.stats);
        match folio.kind {
            FrameKind::HugeZero => return false,
            FrameKind::Device => *lock = LruLock::default(),
            FrameKind::Anon | FrameKind::File(_) => {}
        }
        assert!(folio.refcount >= refs, "more references dropped than held");
        folio.refcount -= refs;
        stats.refcount_ops += 1;
        if folio.refcount > 0 || folio.kind == FrameKind::Device {
            return false;
        }
        lock.take_off_lru(folio, stats);
        folio.free(stats);
        true
    }
}

impl LruLock {
    /// One more step while it is held; 32 are the most.
    #[inline]
    const fn step(&mut self) {
        if self.lruvec.is_some() {
            self.steps += 1;
            if self.steps as u64 == SWAP_CLUSTER_MAX {
                *self = Self {
                    lruvec: None,
                    steps: 0,
                };
            }
        }
    }

    fn take_off_lru(&mut self, folio: &mut FolioInfo, stats: &mut ReleaseStats) {
        let large = folio.nr > 1;
        if large {
            *self = Self::default();
        }
        let Some(lruvec) = folio.lruvec.take() else {
            return;
        };
        if self.lruvec != Some(lruvec) {
            *self = Self {
                lruvec: Some(lruvec),
                steps: 0,
            };
            stats.lru_locks += 1;
        }
        stats.lru_lock_longest = stats.lru_lock_longest.max(self.steps + 1);
        if large {
            // It goes its own way, which takes and drops the lock by itself.
            *self = Self::default();
        }
    }
}

impl FolioInfo {
    fn free(&mut self, stats: &mut ReleaseStats) {
        stats.munlocked += u64::from(core::mem::take(&mut self.mlocked));
        self.deferred_split = false;
        self.swap_cache = false;
        stats.freed += 1;
        stats.freed_pages += u64::from(self.nr);
    }
}
