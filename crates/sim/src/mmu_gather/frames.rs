//! A model of page frames and their folios, as far as unmapping needs them.
//!
//! Invariant: `mapped` of a large folio is the number of its pages whose map count is not zero. For
//! a folio of one page it is not used, because the map count is enough. Only a large, anonymous,
//! partly mapped folio is on the deferred-split queue.

use super::counters::{Counter, MapCounts};

/// The kind of memory in a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Anonymous memory.
    Anon,
    /// File data.
    File,
    /// File data that is newer than the file.
    DirtyFile,
    /// Device memory: its folio is returned to the driver.
    Device,
    /// The huge zero page, whose references are counted elsewhere.
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

    /// Returns whether the folio is neither anonymous memory nor file data.
    pub(super) const fn is_special(self) -> bool {
        matches!(self, Self::Device | Self::HugeZero)
    }
}

/// A folio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolioInfo {
    /// Number of the folio's first frame.
    pub first: u64,
    /// Number of pages in the folio.
    pub nr: u32,
    /// Kind of memory in the folio.
    pub kind: FrameKind,
    /// Number of references; the folio is freed at zero.
    pub refcount: Counter,
    /// Number of pages of a large folio that are mapped at least once.
    pub(super) mapped: Counter,
    /// The lruvec on whose list the folio is; `None` if it is on no list.
    pub lruvec: Option<u32>,
    /// Whether the folio is in the swap cache.
    pub swap_cache: bool,
    /// Whether the folio is mlocked.
    pub mlocked: bool,
    /// Whether the folio is on the deferred-split queue: it is partly mapped and is to be split.
    pub deferred_split: bool,
}

/// Result of looking up the folio of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Index of the folio.
    pub(super) folio: u32,
    /// Number of frames from this one to the end of the folio.
    pub(super) left: u32,
}

impl Found {
    /// Returns the number of the folio's frames from the one that was looked up on.
    #[must_use]
    pub const fn left(self) -> u32 {
        self.left
    }
}

/// Counts of the operations and effects of releasing folios. The LRU lock is modelled: it is taken
/// for one lruvec, for at most 32 folios at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseStats {
    /// Number of folios freed.
    pub freed: u64,
    /// Number of pages freed.
    pub freed_pages: u64,
    /// Number of uncharge calls.
    pub uncharges: u64,
    /// How often the LRU lock was taken.
    pub lru_locks: u64,
    /// Maximum number of folios handled while the LRU lock was held once.
    pub lru_lock_longest: u32,
    /// Number of updates of reference counts.
    pub refcount_ops: u64,
    /// Number of updates of folios' counts of mapped pages, each with an update of the statistics.
    pub mapcount_ops: u64,
    /// How often a folio was put on the deferred-split queue.
    pub deferred_splits: u64,
    /// Number of attempts to free the swap cache.
    pub swap_cache_tries: u64,
    /// Number of mlocked folios that were munlocked at release.
    pub munlocked: u64,
    /// Number of mapped pages: anonymous, file.
    pub mapped: [i64; 2],
}

/// The position of a frame in its folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Index of the folio.
    pub(super) folio: u32,
    /// Number of frames of the folio from this one on.
    pub(super) left: u32,
}

/// All frames and their folios.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub(super) frames: Vec<Frame>,
    pub(super) mapcount: MapCounts,
    pub(super) folios: Vec<FolioInfo>,
    pub(super) stats: ReleaseStats,
}

impl Frames {
    /// Adds a folio of `nr` frames at the end. Each page is mapped once and referenced once.
    /// Returns the number of the first frame.
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

    /// Returns the folio of `frame`.
    #[must_use]
    pub fn folio(&self, frame: u64) -> &FolioInfo {
        &self.folios[self.index(frame)]
    }

    /// Returns the folio of `frame` so that a test can change it.
    #[cfg(test)]
    pub(super) fn folio_mut(&mut self, frame: u64) -> &mut FolioInfo {
        let index = self.index(frame);
        &mut self.folios[index]
    }

    /// Returns the folio of `frame` and the position in it, for a gather.
    #[must_use]
    #[inline]
    pub fn find(&self, frame: u64) -> Found {
        let Frame { folio, left } = self.frames[slot(frame)];
        Found { folio, left }
    }

    /// Returns how often `frame` is mapped.
    #[must_use]
    pub fn mapcount(&self, frame: u64) -> u32 {
        self.mapcount.get(slot(frame))
    }

    /// Sets how often `frame` is mapped, for a test.
    #[cfg(test)]
    pub(super) fn set_mapcount(&mut self, frame: u64, count: u16) {
        self.mapcount.set(slot(frame), count);
    }

    /// Returns the operations and effects so far.
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

/// Returns the array index of a frame.
pub(super) fn slot(frame: u64) -> usize {
    usize::try_from(frame).expect("frames are in memory")
}
