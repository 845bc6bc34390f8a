//! A process with a page table, and the ways to unmap all its pages.
//!
//! Invariant: all ways clear every entry and free every page.

use crate::mmu_gather::by_page::PageGather;
use crate::mmu_gather::{Found, FrameKind, Frames, MmuGather, ReleaseStats};
use crate::rng::Rng;
use crate::stopwatch::{Seconds, Stopwatch};
use std::time::Duration;

/// A way to unmap all memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapping {
    /// Each page is gathered and released separately, as in the kernel before the series.
    Pages,
    /// Each page is gathered; consecutive pages of one folio become a range.
    Ranges,
    /// As `Ranges`, but a run of neighbouring page-table entries is cleared and gathered at once,
    /// as in the kernel since v6.9.
    Runs,
}

impl Unmapping {
    /// All ways, the oldest first.
    pub const ALL: [Self; 3] = [Self::Pages, Self::Ranges, Self::Runs];

    /// Returns the way's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "page by page",
            Self::Ranges => "ranges",
            Self::Runs => "ranges, gathered in runs",
        }
    }
}

/// A process: its page-table entries, and the frames to which they point.
#[derive(Clone, Debug)]
pub struct PageTable {
    /// For each page: number of its frame plus 1; 0 if nothing is mapped.
    entries: Vec<u64>,
    frames: Frames,
}

impl PageTable {
    /// Makes a process of `pages` pages in anonymous folios of 2^`order` pages.
    #[must_use]
    pub fn new(order: u64, pages: u64) -> Self {
        let mut frames = Frames::default();
        for _ in 0..pages >> order {
            frames.add_folio(1 << order, FrameKind::Anon, Some(0));
        }
        let entries = (1..=pages).collect();
        Self { entries, frames }
    }

    /// Maps the same folios in random order, so that neighbours in the page table are not
    /// neighbours in memory.
    #[must_use]
    pub fn scattered(mut self, order: u64, seed: u64) -> Self {
        let (mut rng, folios) = (Rng::new(seed), self.entries.len() >> order);
        for last in (1..folios).rev() {
            let other = rng.below(u32::try_from(last + 1).unwrap_or(u32::MAX)) as usize;
            let (front, back) = self.entries.split_at_mut(last << order);
            if other < last {
                front[other << order..][..1 << order].swap_with_slice(&mut back[..1 << order]);
            }
        }
        self
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub const fn stats(&self) -> &ReleaseStats {
        self.frames.stats()
    }

    /// Unmaps all pages.
    #[inline(never)]
    pub fn teardown(&mut self, unmapping: Unmapping) {
        match unmapping {
            Unmapping::Pages => self.teardown_pages(),
            Unmapping::Ranges => self.teardown_ranges(),
            Unmapping::Runs => self.teardown_runs(),
        }
    }

    /// Runs [`Self::teardown`] and returns its processor time, seconds. (Elapsed time would not do:
    /// a busy machine interrupts the slower way more often.)
    pub fn timed(&mut self, unmapping: Unmapping) -> f64 {
        // The kernel updates a thread's processor time when it switches to another thread.
        let switch = || std::thread::sleep(Duration::from_nanos(1));
        switch();
        let watch = Stopwatch::start();
        self.teardown(unmapping);
        switch();
        let Seconds {
            wall_clock,
            processor,
        } = watch.read();
        processor.unwrap_or(wall_clock)
    }

    fn teardown_pages(&mut self) {
        let mut tlb = PageGather::default();
        for entry in &mut self.entries {
            let frame = std::mem::take(entry).wrapping_sub(1);
            if frame != u64::MAX && tlb.add(frame) {
                tlb.flush(&mut self.frames);
            }
        }
        tlb.flush(&mut self.frames);
    }

    fn teardown_ranges(&mut self) {
        let mut tlb = MmuGather::default();
        for entry in &mut self.entries {
            let frame = std::mem::take(entry).wrapping_sub(1);
            if frame != u64::MAX && tlb.add(&self.frames, frame) {
                tlb.flush(&mut self.frames, |_| {});
            }
        }
        tlb.flush(&mut self.frames, |_| {});
    }

    fn teardown_runs(&mut self) {
        let mut tlb = MmuGather::default();
        let mut rest = &mut self.entries[..];
        while let [entry, ..] = rest {
            let frame = entry.wrapping_sub(1);
            if frame == u64::MAX {
                rest = &mut rest[1..];
                continue;
            }
            let found = self.frames.find(frame);
            if found.left() > 1 {
                let len = clear_run(rest, found.left());
                rest = &mut rest[len..];
                gather_run(&mut tlb, &mut self.frames, (found, frame), len);
                continue;
            }
            *entry = 0;
            rest = &mut rest[1..];
            if tlb.add_last(found, frame) {
                tlb.flush(&mut self.frames, |_| {});
            }
        }
        tlb.flush(&mut self.frames, |_| {});
    }
}

/// Gathers `len` frames from `start` on. All belong to the folio `found`.
#[inline]
fn gather_run(tlb: &mut MmuGather, frames: &mut Frames, (found, start): (Found, u64), len: usize) {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let (added, full) = tlb.add_range(found, start, len);
    if full || added < len {
        gather_rest(tlb, frames, start + u64::from(added), (len - added, full));
    }
}

/// Continues a run with frame `next` after a batch is full: `left` frames are still to be gathered.
/// `full`: the gather must be flushed first.
#[cold]
#[inline(never)]
fn gather_rest(
    tlb: &mut MmuGather,
    frames: &mut Frames,
    mut next: u64,
    (mut left, mut full): (u32, bool),
) {
    while full || left > 0 {
        if full {
            tlb.flush(frames, |_| {});
            full = false;
        } else {
            let added;
            (added, full) = tlb.add_range(frames.find(next), next, left);
            next += u64::from(added);
            left -= added;
        }
    }
}

/// Clears entries from the first on, as long as they point to consecutive frames, at most `most`
/// entries. Returns their number.
#[inline]
fn clear_run(entries: &mut [u64], most: u32) -> usize {
    let most = entries.len().min(most as usize);
    let entries = &mut entries[..most];
    let (mut next, mut len) = (entries[0], 0);
    if most >= 8 {
        for eight in entries.as_chunks_mut::<8>().0 {
            // The differences of eight entries are combined and tested once.
            let [a, b, c, d, e, f, g, h] = *eight;
            let any = (a ^ next) | (b ^ (next + 1)) | (c ^ (next + 2)) | (d ^ (next + 3));
            let more = (e ^ (next + 4)) | (f ^ (next + 5)) | (g ^ (next + 6)) | (h ^ (next + 7));
            if any | more != 0 {
                break;
            }
            *eight = [0; 8];
            (next, len) = (next + 8, len + 8);
        }
    }
    for entry in &mut entries[len..] {
        if *entry != next {
            break;
        }
        *entry = 0;
        (next, len) = (next + 1, len + 1);
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_free_everything() {
        for order in [0, 3] {
            let fresh = PageTable::new(order, 1 << 14);
            let ended = Unmapping::ALL.map(|unmapping| {
                let mut table = fresh.clone();
                table.teardown(unmapping);
                assert!(table.entries.iter().all(|&entry| entry == 0));
                (
                    table.stats().freed,
                    table.stats().freed_pages,
                    table.stats().mapped,
                )
            });
            assert_eq!(ended, [(1 << (14 - order), 1 << 14, [0; 2]); 3]);
        }
    }
}
