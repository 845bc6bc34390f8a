//! Dropping the references of a chunk of ranges, and freeing what nobody holds any more.
//! spec: mmu-gather.md 5.
//!
//! Invariant (I9): the LRU lock is held for at most 32 folios, and never across the destruction of
//! a large one.

use super::frames::Frames;
use super::{FrameKind, FrameRange};
use crate::vmscan::SWAP_CLUSTER_MAX;

/// The LRU lock, as far as it matters here: whose it is and for how many steps.
#[derive(Default)]
struct LruLock {
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
    pub(super) fn try_free_swap_cache(&mut self, frame: u64) {
        let folio = self.folio_mut(frame);
        let tried = folio.swap_cache;
        folio.swap_cache &= folio.mapped > 0;
        self.stats.swap_cache_tries += u64::from(tried);
    }

    /// Drops the references of `range` with one update; true when the folio was freed.
    fn release_range(&mut self, range: FrameRange, lock: &mut LruLock) -> bool {
        if lock.lruvec.is_some() {
            lock.steps += 1;
            if u64::from(lock.steps) == SWAP_CLUSTER_MAX {
                *lock = LruLock::default();
            }
        }
        let refs = u32::try_from(range.end - range.start).expect("a range lies in one folio");
        let folio = self.folio_mut(range.start);
        match folio.kind {
            FrameKind::HugeZero => return false,
            FrameKind::Device => *lock = LruLock::default(),
            FrameKind::Anon | FrameKind::File(_) => {}
        }
        assert!(folio.refcount >= refs, "more references dropped than held");
        folio.refcount -= refs;
        let (gone, large) = (folio.refcount == 0, folio.nr > 1);
        self.stats.refcount_ops += 1;
        if !gone || self.folio(range.start).kind == FrameKind::Device {
            return false;
        }
        if large {
            *lock = LruLock::default();
        }
        self.take_off_lru(range.start, large, lock);
        self.free(range.start);
        true
    }

    fn take_off_lru(&mut self, frame: u64, large: bool, lock: &mut LruLock) {
        let Some(lruvec) = self.folio_mut(frame).lruvec.take() else {
            return;
        };
        if lock.lruvec != Some(lruvec) {
            *lock = LruLock {
                lruvec: Some(lruvec),
                steps: 0,
            };
            self.stats.lru_locks += 1;
        }
        self.stats.lru_lock_longest = self.stats.lru_lock_longest.max(lock.steps + 1);
        if large {
            // It goes its own way, which takes and drops the lock by itself.
            *lock = LruLock::default();
        }
    }

    pub(super) fn free(&mut self, frame: u64) {
        let folio = self.folio_mut(frame);
        let (munlocked, nr) = (core::mem::take(&mut folio.mlocked), folio.nr);
        folio.deferred_split = false;
        folio.swap_cache = false;
        self.stats.munlocked += u64::from(munlocked);
        self.stats.freed += 1;
        self.stats.freed_pages += u64::from(nr);
    }
}
