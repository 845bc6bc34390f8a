//! The counters of folios. All address spaces that map a folio share its counters, and two
//! processors may unmap the folio at the same time, so the counters are atomic. Unmapping by ranges
//! and page by page uses the same functions.
//!
//! Memory ordering: dropping a reference is a release; dropping the last one is also an acquire. So
//! the thread that frees a folio sees all accesses to it from before other references were dropped.
//! The other counts are relaxed, because they free nothing.
//!
//! Invariant: a count is never dropped more often than it was raised; code that does so panics.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A count of references, or of mapped pages.
#[derive(Debug, Default)]
pub struct Counter(AtomicU32);

impl Counter {
    pub(super) const fn new(count: u32) -> Self {
        Self(AtomicU32::new(count))
    }

    /// Returns the current value.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the value, to set up a test or workload.
    pub fn set(&mut self, count: u32) {
        *self.0.get_mut() = count;
    }

    /// Drops `refs` references in one operation; returns whether they were the last.
    #[inline]
    pub(super) fn put(&self, refs: u32) -> bool {
        let before = self.0.fetch_sub(refs, Ordering::Release);
        assert!(before >= refs, "more references dropped than held");
        if before == refs {
            fence(Ordering::Acquire);
        }
        before == refs
    }

    /// Subtracts `pages` in one operation; returns the new value.
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

/// Number of map counts in a word; each has 16 bits of it, a lane.
const LANES: usize = 4;
const LANE_BITS: u32 = 16;
const LANE: u64 = 0xffff;
/// A word with a one in the lowest bit of every lane.
const ONES: u64 = u64::MAX / LANE;

/// Map count of each frame, up to 65535. The counts of four neighbouring frames share a word, so
/// one operation can drop all four.
#[derive(Debug, Default)]
pub(super) struct MapCounts(Vec<AtomicU64>);

impl MapCounts {
    /// Adds the frames `from..to`, each mapped once; `from` must be the current end.
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

    /// Unmaps a frame once; returns whether it is no longer mapped.
    #[inline]
    pub(super) fn unmap(&self, frame: usize) -> bool {
        let one = 1 << shift(frame);
        let before = self.0[frame / LANES].fetch_sub(one, Ordering::Relaxed);
        let before = lane(before >> shift(frame));
        assert!(before > 0, "unmapped more often than mapped");
        before == 1
    }

    /// Unmaps each of the frames `start..start + nr` once; returns how many are still mapped.
    #[inline]
    pub(super) fn unmap_range(&self, start: usize, nr: u32) -> u32 {
        let end = start + nr as usize;
        if start.is_multiple_of(LANES) && end.is_multiple_of(LANES) {
            let words = self.0[start / LANES..end / LANES].iter().enumerate();
            words.fold(0, |mapped, (n, word)| match unmap_lanes(word, ONES) {
                Some(before) => mapped + count_still_mapped(start / LANES + n, ONES, before),
                None => mapped,
            })
        } else {
            self.unmap_parts(start, end)
        }
    }

    /// Unmaps each of the frames `from..end` once, if the range begins or ends in the middle of a
    /// word. Returns how many of them are still mapped.
    #[cold]
    fn unmap_parts(&self, mut from: usize, end: usize) -> u32 {
        let mut mapped = 0;
        while from < end {
            let mut part = Lanes::of(from);
            from += 1;
            while from < end && part.take(from) {
                from += 1;
            }
            if let Some(before) = self.unmap_lanes(part) {
                mapped += count_still_mapped(part.word, part.ones, before);
            }
        }
        mapped
    }

    /// Unmaps each frame in `lanes` once, in one operation. Returns the word as it was before if
    /// some of the frames are still mapped, otherwise `None`.
    #[inline]
    pub(super) fn unmap_lanes(&self, lanes: Lanes) -> Option<u64> {
        unmap_lanes(&self.0[lanes.word], lanes.ones)
    }
}

/// Unmaps the frames of one word; see [`MapCounts::unmap_lanes`].
#[inline]
fn unmap_lanes(word: &AtomicU64, ones: u64) -> Option<u64> {
    let before = word.fetch_sub(ones, Ordering::Relaxed);
    // Usually each frame was mapped once.
    (before & (ones * LANE) != ones).then_some(before)
}

/// A set of frames whose map counts share a word, to be unmapped once each in one operation. `ones`
/// has a one in the lane of each frame.
#[derive(Clone, Copy, Default)]
pub(super) struct Lanes {
    pub(super) word: usize,
    pub(super) ones: u64,
}

impl Lanes {
    pub(super) const fn of(frame: usize) -> Self {
        Self {
            word: frame / LANES,
            ones: 1 << shift(frame),
        }
    }

    /// Adds `frame`; returns false if its count is in another word, or if it was added before.
    #[inline]
    pub(super) const fn take(&mut self, frame: usize) -> bool {
        let one = 1 << shift(frame);
        let takes = self.word == frame / LANES && self.ones & one == 0;
        if takes {
            self.ones |= one;
        }
        takes
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

#[cold]
#[inline(never)]
fn count_still_mapped(word: usize, ones: u64, before: u64) -> u32 {
    still_mapped(word, ones, before).map(|_| 1).sum()
}

/// Returns those frames with a one in `ones` that were mapped more than once, by the word `before`.
pub(super) fn still_mapped(word: usize, ones: u64, before: u64) -> impl Iterator<Item = usize> {
    let lanes = (0..LANES).filter(move |&lane| ones >> shift(lane) & 1 == 1);
    let counts = lanes.map(move |at| (word * LANES + at, lane(before >> shift(at))));
    let checked =
        counts.inspect(|&(_, count)| assert!(count > 0, "unmapped more often than mapped"));
    checked
        .filter(|&(_, count)| count > 1)
        .map(|(frame, _)| frame)
}

/// Returns the bit position of a frame's count in its word.
#[allow(clippy::cast_possible_truncation, reason = "it is below 4")]
#[inline]
const fn shift(frame: usize) -> u32 {
    (frame % LANES) as u32 * LANE_BITS
}

/// Returns the count in the lowest lane.
#[inline]
const fn lane(word: u64) -> u32 {
    (word & LANE) as u32
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// Two threads unmap processes that share folios at the same time, one by ranges, one page by
    /// page.
    #[test]
    fn each_count_is_dropped_to_zero_by_one_of_two() {
        const PAGES: u32 = 1 << 12;
        let (mut counts, references) = (MapCounts::default(), Counter::new(2 * PAGES));
        counts.add(0, PAGES as usize);
        (0..PAGES).for_each(|frame| counts.set(frame as usize, 2));
        let ranges = || {
            let steps = (0..PAGES).step_by(8);
            steps.fold((0, false), |(gone, last), at| {
                let mapped = counts.unmap_range(at as usize, 8);
                (gone + 8 - mapped, last | references.put(8))
            })
        };
        let pages = || {
            (0..PAGES).fold((0, false), |(gone, last), at| {
                let unmapped = u32::from(counts.unmap(at as usize));
                (gone + unmapped, last | references.put(1))
            })
        };
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(ranges);
            let other = pages();
            (one.join().expect("no panic"), other)
        });
        assert_eq!(one.0 + other.0, PAGES, "each page's last map was dropped");
        assert!(one.1 != other.1, "one of them dropped the last reference");
        assert_eq!(references.get(), 0);
    }

    #[test]
    fn lanes_equal_separate_counters() {
        let (mut counts, mut naive) = (MapCounts::default(), [1u32; 64]);
        counts.add(0, 64);
        let mut x = 7u32;
        for round in 0..2000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (start, nr) = ((x >> 8) % 64, (x >> 16) % 9 + 1);
            let nr = nr.min(64 - start);
            for frame in start..start + nr {
                let count = (x >> (frame % 16)) % 3 + 1;
                naive[frame as usize] = count;
                counts.set(frame as usize, u16::try_from(count).expect("small"));
            }
            let range = &mut naive[start as usize..][..nr as usize];
            range.iter_mut().for_each(|count| *count -= 1);
            let mapped = range.iter().filter(|&&count| count > 0).count();
            let actual = counts.unmap_range(start as usize, nr);
            assert_eq!(actual as usize, mapped, "round {round}");
            let all: Vec<u32> = (0..64).map(|frame| counts.get(frame)).collect();
            assert_eq!(all, naive, "round {round}");
        }
    }

    #[test]
    #[should_panic(expected = "unmapped more often than mapped")]
    fn unmapping_an_unmapped_page_panics() {
        let mut counts = MapCounts::default();
        counts.add(0, 8);
        counts.set(5, 0);
        counts.unmap_range(0, 8);
    }

    #[test]
    #[should_panic(expected = "more references dropped than held")]
    fn dropping_too_many_references_panics() {
        Counter::new(3).put(4);
    }
}
