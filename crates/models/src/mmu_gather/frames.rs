//! Frames and the folios they belong to, as far as tearing mappings down concerns them.
//!
//! Invariant: `mapped` of a large folio is the number of its pages whose map count is not zero, that of
//! a single page is not used: its map count says it; a folio is on the deferred-split queue only while
//! it is large, anon and partly mapped.

use super::counters::{Counter, MapCounts};
use alloc::vec::Vec;

/// What a folio is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Anonymous memory.
    Anon,
    /// File data.
    File,
    /// File data that is newer than the file.
    DirtyFile,
    /// Device memory: given back to its driver.
    Device,
    /// The huge zero page: counted elsewhere.
    HugeZero,
}

impl FrameKind {
    pub(super) const ALL: [Self; 5] = [
        Self::Anon,
        Self::File,
        Self::DirtyFile,
        Self::Device,
        Self::HugeZero,
    ];
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Neither anonymous memory nor file data.
    pub(super) const fn is_special(self) -> bool {
        matches!(self, Self::Device | Self::HugeZero)
    }
}

/// A folio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolioInfo {
    /// Its first frame.
    pub first: u64,
    /// Its pages.
    pub nr: u32,
    /// What it is.
    pub kind: FrameKind,
    /// References; freed at zero.
    pub refcount: Counter,
    /// Pages of a large folio that are mapped at least once.
    pub(super) mapped: Counter,
    /// The lruvec on whose list it is.
    pub lruvec: Option<u32>,
    /// In the swap cache.
    pub swap_cache: bool,
    /// Marked mlocked.
    pub mlocked: bool,
    /// Partly mapped: waiting to be split.
    pub deferred_split: bool,
}

/// A folio that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its index.
    pub(super) folio: u32,
    /// Its frames from the one on that was looked up.
    pub(super) left: u32,
}

impl Found {
    /// Frames of the folio from the one on that was looked up, this included.
    #[must_use]
    pub const fn left(self) -> u32 {
        self.left
    }
}

/// What releasing cost and did. The LRU lock is modelled: taken for a lruvec, held for 32 at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseStats {
    /// Folios freed.
    pub freed: u64,
    /// Pages freed.
    pub freed_pages: u64,
    /// Uncharge calls.
    pub uncharges: u64,
    /// Times the LRU lock was taken.
    pub lru_locks: u64,
    /// Most folios handled in one hold of it.
    pub lru_lock_longest: u32,
    /// Reference-count updates.
    pub refcount_ops: u64,
    /// Updates of a folio's mapped count, and of the statistics.
    pub mapcount_ops: u64,
    /// Times a folio was put on the deferred-split queue.
    pub deferred_splits: u64,
    /// Tries to free the swap cache.
    pub swap_cache_tries: u64,
    /// Mlocked folios cleared at release.
    pub munlocked: u64,
    /// Pages mapped, by anon and file.
    pub mapped: [i64; 2],
}

/// A frame, as part of its folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Index of the folio.
    pub(super) folio: u32,
    /// Frames of the folio from this one on.
    pub(super) left: u32,
}

/// All frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub(super) frames: Vec<Frame>,
    pub(super) mapcount: MapCounts,
    pub(super) folios: Vec<FolioInfo>,
    pub(super) stats: ReleaseStats,
}

impl Frames {
    /// Adds a folio of `nr` frames after the last, each mapped once and so referenced once.
    /// Returns its first frame.
    pub fn add_folio(&mut self, nr: u32, kind: FrameKind, lruvec: Option<u32>) -> u64 {
        let first = self.frames.len();
        let index = u32::try_from(self.folios.len()).expect("fewer than 2^32 folios");
        let of = |left| Frame { folio: index, left };
        self.frames.extend((1..=nr).rev().map(of));
        self.mapcount.add(first, self.frames.len());
        self.folios.push(FolioInfo {
            first: first as u64,
            nr,
            kind,
            refcount: Counter::new(nr),
            mapped: Counter::new(if nr > 1 { nr } else { 0 }),
            lruvec,
            swap_cache: false,
            mlocked: false,
            deferred_split: false,
        });
        self.stats.mapped[Self::stat_of(kind)] += i64::from(nr);
        first as u64
    }

    /// The folio of `frame`.
    #[must_use]
    pub fn folio(&self, frame: u64) -> &FolioInfo {
        &self.folios[self.index(frame)]
    }

    /// The folio of `frame`, to set up what a test needs.
    #[cfg(test)]
    pub(super) fn folio_mut(&mut self, frame: u64) -> &mut FolioInfo {
        let index = self.index(frame);
        &mut self.folios[index]
    }

    /// What a gather must know of the folio of `frame`.
    #[must_use]
    #[inline]
    pub fn find(&self, frame: u64) -> Found {
        let Frame { folio, left } = self.frames[slot(frame)];
        Found { folio, left }
    }

    /// How often `frame` is mapped.
    #[must_use]
    pub fn mapcount(&self, frame: u64) -> u32 {
        self.mapcount.get(slot(frame))
    }

    /// Sets how often `frame` is mapped, to set up what a test needs.
    #[cfg(test)]
    pub(super) fn set_mapcount(&mut self, frame: u64, count: u16) {
        self.mapcount.set(slot(frame), count);
    }

    /// Costs and effects so far.
    #[must_use]
    pub const fn stats(&self) -> &ReleaseStats {
        &self.stats
    }

    #[inline]
    pub(super) fn index(&self, frame: u64) -> usize {
        self.frames[slot(frame)].folio as usize
    }

    pub(super) fn stat_of(kind: FrameKind) -> usize {
        usize::from(!matches!(kind, FrameKind::Anon))
    }
}

/// Array index of a frame.
pub(super) fn slot(frame: u64) -> usize {
    usize::try_from(frame).expect("frames are in memory")
}
