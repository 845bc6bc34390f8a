//! Counts of one part of the time: accessed pages by their LRU stack distance, and watched time by
//! the number of pages known at that time.
//!
//! Invariant: each access is counted once in `anon` or `file` at its likely distance, once in
//! `nearest` at its minimum and once in `farthest` at its maximum. Time counts for a size only if
//! at least as many pages were known.

use super::super::by_size::BySize;

/// Counts of one part of the time. Sizes and distances are in pages, times in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) anon: BySize,
    pub(super) file: BySize,
    /// All accesses, at the minimum distance that each can have; in `farthest` at the maximum.
    pub(super) nearest: BySize,
    pub(super) farthest: BySize,
    /// Number of pages accessed, by the number of pages known at that time.
    pub(super) touches: BySize,
    /// Milliseconds, by the number of pages known at that time.
    pub(super) watched: BySize,
}

/// A stack distance, in pages: probably within `likely.0..likely.1`, certainly from `nearest` to
/// `farthest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    pub(super) nearest: u64,
    pub(super) likely: (u64, u64),
    pub(super) farthest: u64,
}

impl Distance {
    /// Creates a distance that is known exactly.
    pub(super) const fn exactly(pages: u64) -> Distance {
        Distance {
            nearest: pages,
            likely: (pages, pages),
            farthest: pages,
        }
    }
}

impl Counts {
    /// Counts `pages` that were accessed at this distance; `files` of them are file pages.
    pub(super) fn add(&mut self, distance: Distance, pages: u64, files: u64) {
        debug_assert!(files <= pages, "files are among the pages");
        let (from, to) = distance.likely;
        self.anon.spread(from, to, pages - files);
        self.file.spread(from, to, files);
        self.nearest.add(distance.nearest, pages);
        self.farthest.add(distance.farthest, pages);
    }

    /// Adds the counts of another part of the time.
    pub(super) fn merge(&mut self, other: &Counts) {
        for (own, more) in self.all_mut().into_iter().zip(other.all()) {
            own.merge(more);
        }
        debug_assert!(self.watched.at_least(0) >= other.watched.at_least(0));
    }

    /// Halves all counts, of time and of accesses.
    pub(super) fn halve(&mut self) {
        for counts in self.all_mut() {
            counts.halve();
        }
    }

    /// Returns the watched time of this part, in milliseconds.
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

    /// Returns the memory allocated on the heap, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all().map(BySize::memory_bytes).iter().sum()
    }
}
