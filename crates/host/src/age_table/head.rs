//! The head of a chunk: the fields that are stored besides its records.
//!
//! Invariant: `seen` is a subset of `live`, and is valid in scan `scan` only. If a chunk is not
//! `mixed`, all its records have the owner `sole`.

use super::index::NARROW;

/// A value that is no scan's number.
pub(super) const NEVER: u32 = u32::MAX;

/// The address spaces that were found to map a chunk's frames before this scan walked the frames'
/// owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EarlyObserver {
    One(u16),
    Several,
}

/// The fields of a chunk besides its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkHead {
    /// Bit masks of places: those in `live` have a record; those in `seen` have one that scan
    /// `scan` saw.
    pub(super) live: u64,
    pub(super) seen: u64,
    /// The low 40 bits are the number of the first frame; the higher bits are the width of the
    /// range.
    place: u64,
    pub(super) scan: u32,
    /// Owner of all records, if the chunk is not `mixed`.
    pub(super) sole: u16,
    pub(super) mixed: bool,
    /// The address spaces that scan `scan` found to map a frame of this chunk before it walked the
    /// frame's owner.
    pub(super) early: Option<EarlyObserver>,
    /// Whether the chunk has a record that was kept although the last walk of its owner did not
    /// find the frame.
    pub(super) stale: bool,
}

impl ChunkHead {
    pub(super) const EMPTY: ChunkHead = ChunkHead {
        live: 0,
        seen: 0,
        place: 0,
        scan: NEVER,
        sole: 0,
        mixed: false,
        early: None,
        stale: false,
    };

    /// Returns a copy of this head without records, for the range of 2^`width` frames from frame
    /// `base`.
    pub(super) const fn at(self, base: u64, width: u32) -> ChunkHead {
        ChunkHead {
            live: 0,
            seen: 0,
            place: base | (width as u64) << 40,
            ..self
        }
    }

    /// Returns the width of the range: the binary logarithm of its number of frames.
    pub(super) const fn width(&self) -> u32 {
        (self.place >> 40) as u32
    }

    /// Returns the number of the first frame of the range.
    pub(super) const fn base(&self) -> u64 {
        self.place & ((1 << 40) - 1)
    }

    /// Returns whether the chunk covers 64 frames.
    pub(super) const fn is_narrow(&self) -> bool {
        self.width() == NARROW
    }

    /// Merges `seer`, the early observer of another chunk, into that of this chunk.
    pub(super) fn note_early(&mut self, seer: Option<EarlyObserver>) {
        self.early = match (self.early, seer) {
            (Some(one), Some(other)) if one != other => Some(EarlyObserver::Several),
            (one, other) => one.or(other),
        };
    }

    /// Prepares the head for scan `now`: resets `seen` and `early` if they belong to an earlier
    /// scan.
    #[inline]
    pub(super) const fn enter(&mut self, now: u32) {
        if self.scan != now {
            self.scan = now;
            self.seen = 0;
            self.early = None;
        }
    }

    /// Records that the address space `reader` was found to map a frame before this scan walked the
    /// frame's owner.
    pub(super) fn seen_early_by(&mut self, reader: u16) {
        let is_other = |seer: EarlyObserver| seer != EarlyObserver::One(reader);
        self.early = match self.early {
            Some(seer) if is_other(seer) => Some(EarlyObserver::Several),
            _ => Some(EarlyObserver::One(reader)),
        };
    }

    /// Returns the address spaces in `early`; `None` if they are not of scan `now`.
    pub(super) fn early_in(&self, now: u32) -> Option<EarlyObserver> {
        self.early.filter(|_| self.scan == now)
    }

    /// Returns a bit mask of the places whose records scan `now` has seen.
    pub(super) const fn seen_in(&self, now: u32) -> u64 {
        if self.scan == now { self.seen } else { 0 }
    }

    /// Updates `sole` and `mixed` before a record of this owner is added.
    #[inline]
    pub(super) const fn owned_by(&mut self, owner: u16) {
        if self.live == 0 {
            self.sole = owner;
            self.mixed = false;
        } else if self.sole != owner {
            self.mixed = true;
        }
    }
}
