//! Counts of one period: page accesses by their LRU stack distance, and watched time by the memory size that was full.
//!
//! Invariant: each access is counted once in `anon` or `file` at its likely distance, once in `nearest` and once in `farthest`; of the
//! three the nearest is the smallest. A size has its time counted only where as many pages were known.

use super::super::by_size::BySize;

/// See the module. Sizes and distances in pages, times in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) anon: BySize,
    pub(super) file: BySize,
    /// All of them, at the least and the greatest distance that they can have.
    pub(super) nearest: BySize,
    pub(super) farthest: BySize,
    /// Pages accessed, by the pages that were known then.
    pub(super) touches: BySize,
    /// Time, by the pages that were known then.
    pub(super) watched: BySize,
}

/// A distance that is known within bounds: likely anywhere between `likely.0` and `likely.1`, surely between `nearest` and `farthest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    pub(super) nearest: u64,
    pub(super) likely: (u64, u64),
    pub(super) farthest: u64,
}

impl Distance {
    /// This one and no other.
    pub(super) const fn exactly(pages: u64) -> Distance {
        Distance {
            nearest: pages,
            likely: (pages, pages),
            farthest: pages,
        }
    }
}

impl Counts {
    /// So many pages were accessed again, `files` of them of files, at this distance.
    pub(super) fn add(&mut self, distance: Distance, pages: u64, files: u64) {
        debug_assert!(files <= pages, "files are among the pages");
        let (from, to) = distance.likely;
        self.anon.spread(from, to, pages - files);
        self.file.spread(from, to, files);
        self.nearest.add(distance.nearest, pages);
        self.farthest.add(distance.farthest, pages);
    }

    /// All of another stretch of time, too.
    pub(super) fn merge(&mut self, other: &Counts) {
        for (own, more) in self.all_mut().into_iter().zip(other.all()) {
            own.merge(more);
        }
        debug_assert!(self.watched.at_least(0) >= other.watched.at_least(0));
    }

    /// Counts half as much from now on, time and accesses alike.
    pub(super) fn halve(&mut self) {
        for counts in self.all_mut() {
            counts.halve();
        }
    }

    /// Milliseconds of all sizes.
    pub(super) fn watched_ms(&self) -> u64 {
        self.watched.at_least(0)
    }

    fn all_mut(&mut self) -> [&mut BySize; 6] {
        [
            &mut self.anon,
            &mut self.file,
            &mut self.nearest,
            &mut self.farthest,
            &mut self.touches,
            &mut self.watched,
        ]
    }

    fn all(&self) -> [&BySize; 6] {
        [
            &self.anon,
            &self.file,
            &self.nearest,
            &self.farthest,
            &self.touches,
            &self.watched,
        ]
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all().map(BySize::memory_bytes).iter().sum()
    }
}
