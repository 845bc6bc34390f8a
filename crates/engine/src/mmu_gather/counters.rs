//! The counters of folios. Every address space that maps a folio shares them, and two of those may be
//! torn down on two processors at once: so they are atomic, and both ways of tearing down, by ranges
//! and page by page, drop them through the same functions.
//!
//! Order: what was done to a folio before one of its references was dropped (release) is seen by whoever
//! drops the last (acquire) and frees it. The other counts are relaxed: nobody frees by them.
//!
//! Invariant: a count is dropped at most as often as it was raised; who breaks that panics.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A count of references, or of mapped pages.
#[derive(Debug, Default)]
pub struct Counter(AtomicU32);

impl Counter {
    pub(super) const fn new(count: u32) -> Self {
        Self(AtomicU32::new(count))
    }

    /// Its value, as of now.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it, to set up what a test or workload needs.
    pub fn set(&mut self, count: u32) {
        *self.0.get_mut() = count;
    }

    /// Drops `refs` references in one operation; true when they were the last.
    #[inline]
    pub(super) fn put(&self, refs: u32) -> bool {
        let before = self.0.fetch_sub(refs, Ordering::Release);
        assert!(before >= refs, "more references dropped than held");
        if before == refs {
            fence(Ordering::Acquire);
        }
        before == refs
    }

    /// Takes `pages` off in one operation; returns what is left.
    #[inline]
    pub(super) fn less(&self, pages: u32) -> u32 {
        self.0
            .fetch_sub(pages, Ordering::Relaxed)
            .wrapping_sub(pages)
    }
}

impl Clone for Counter {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Counter {}

/// Map counts in a word.
const LANES: usize = 4;
const LANE_BITS: u32 = 16;
const LANE: u64 = 0xffff;
/// One in every lane.
const ONES: u64 = u64::MAX / LANE;

/// How often each frame is mapped, up to 65535 times. Those of four frames in a row share a word, so
/// that one operation can drop all four.
#[derive(Debug, Default)]
pub(super) struct MapCounts(Vec<AtomicU64>);

impl MapCounts {
    /// Frames `from..to`, all that there are from `from` on, are mapped once.
    pub(super) fn add(&mut self, from: usize, to: usize) {
        self.0.resize_with(to.div_ceil(LANES), AtomicU64::default);
        for frame in from..to {
            self.set(frame, 1);
        }
    }

    pub(super) fn get(&self, frame: usize) -> u32 {
        let word = self.0[frame / LANES].load(Ordering::Relaxed);
        lane(word >> shift(frame))
    }

    pub(super) fn set(&mut self, frame: usize, count: u16) {
        let word = self.0[frame / LANES].get_mut();
        *word &= !(LANE << shift(frame));
        *word |= u64::from(count) << shift(frame);
    }

    /// Unmaps a frame once; true when it is mapped no longer.
    #[inline]
    pub(super) fn unmap(&self, frame: usize) -> bool {
        let one = 1 << shift(frame);
        let before = self.0[frame / LANES].fetch_sub(one, Ordering::Relaxed);
        let before = lane(before >> shift(frame));
        assert!(before > 0, "unmapped more often than mapped");
        before == 1
    }

    /// Unmaps frames `start..start + nr` once each; returns how many are mapped no longer.
    #[inline]
    pub(super) fn unmap_range(&self, start: usize, nr: usize) -> u32 {
        let (mut lane, mut left, mut gone) = (start % LANES, nr, 0);
        for word in &self.0[start / LANES..(start + nr).div_ceil(LANES)] {
            let lanes = left.min(LANES - lane);
            // One in each lane that belongs to the range.
            let ones = (ONES >> (LANE_BITS as usize * (LANES - lanes))) << shift(lane);
            let before = word.fetch_sub(ones, Ordering::Relaxed);
            // Most pages are mapped once.
            if before & (ones * LANE) == ones {
                gone += lanes as u32;
            } else {
                gone += last_maps(before, ones);
            }
            (lane, left) = (0, left - lanes);
        }
        gone
    }
}

impl Clone for MapCounts {
    fn clone(&self) -> Self {
        let counts = self.0.iter().map(|word| word.load(Ordering::Relaxed));
        Self(counts.map(AtomicU64::new).collect())
    }
}

impl PartialEq for MapCounts {
    fn eq(&self, other: &Self) -> bool {
        let value = |word: &AtomicU64| word.load(Ordering::Relaxed);
        self.0.iter().map(value).eq(other.0.iter().map(value))
    }
}

impl Eq for MapCounts {}

/// How many of the lanes that `ones` names were one.
#[cold]
#[inline(never)]
fn last_maps(before: u64, ones: u64) -> u32 {
    let mut last = 0;
    for lane_of in (0..LANES)
        .map(shift)
        .filter(|&shift| ones >> shift & 1 == 1)
    {
        let count = lane(before >> lane_of);
        assert!(count > 0, "unmapped more often than mapped");
        last += u32::from(count == 1);
    }
    last
}

/// Where in its word the count of a frame is.
#[inline]
const fn shift(frame: usize) -> u32 {
    (frame % LANES) as u32 * LANE_BITS
}

/// The lowest lane.
#[inline]
const fn lane(word: u64) -> u32 {
    (word & LANE) as u32
}
