//! What is noted of a chunk of records besides the records.
//!
//! Invariant: `seen` is a subset of `live` and of round `round` only; if a chunk is not `mixed`, all its
//! records belong to `sole`.

use super::index::NARROW;

/// A round that never is.
pub(super) const NEVER: u32 = u32::MAX;

/// Who saw frames of a chunk before their owners were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seer {
    One(u16),
    Several,
}

/// A chunk without its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Which places have a record, and which of them were seen in `round`.
    pub(super) live: u64,
    pub(super) seen: u64,
    /// Its first frame, and from bit 40 on the width of its range.
    place: u64,
    pub(super) round: u32,
    /// The owner of all records, unless they have several.
    pub(super) sole: u16,
    pub(super) mixed: bool,
    /// Who saw in `round` a frame of an owner that had not been read yet.
    pub(super) early: Option<Seer>,
    /// The last reading of some record's owner missed it, and the record is still there.
    pub(super) stale: bool,
}

impl Head {
    pub(super) const EMPTY: Head = Head {
        live: 0,
        seen: 0,
        place: 0,
        round: NEVER,
        sole: 0,
        mixed: false,
        early: None,
        stale: false,
    };

    /// The same without records, for this range.
    pub(super) const fn at(self, base: u64, width: u32) -> Head {
        Head {
            live: 0,
            seen: 0,
            place: base | (width as u64) << 40,
            ..self
        }
    }

    /// The width of its range: so many frames, as a power of two.
    pub(super) const fn width(&self) -> u32 {
        (self.place >> 40) as u32
    }

    /// The first frame of its range.
    pub(super) const fn base(&self) -> u64 {
        self.place & ((1 << 40) - 1)
    }

    pub(super) const fn is_narrow(&self) -> bool {
        self.width() == NARROW
    }

    /// Somebody saw a frame early in this round, or nobody did.
    pub(super) fn note_early(&mut self, seer: Option<Seer>) {
        self.early = match (self.early, seer) {
            (Some(one), Some(other)) if one != other => Some(Seer::Several),
            (one, other) => one.or(other),
        };
    }

    /// Begins this round's `seen`, if it has not begun.
    #[inline]
    pub(super) const fn enter(&mut self, now: u32) {
        if self.round != now {
            self.round = now;
            self.seen = 0;
            self.early = None;
        }
    }

    /// This one has seen a frame before its owner was read.
    pub(super) fn seen_early_by(&mut self, reader: u16) {
        let is_other = |seer: Seer| seer != Seer::One(reader);
        self.early = match self.early {
            Some(seer) if is_other(seer) => Some(Seer::Several),
            _ => Some(Seer::One(reader)),
        };
    }

    /// Who did so in this round.
    pub(super) fn early_in(&self, now: u32) -> Option<Seer> {
        self.early.filter(|_| self.round == now)
    }

    /// What was seen in this round.
    pub(super) const fn seen_in(&self, now: u32) -> u64 {
        if self.round == now { self.seen } else { 0 }
    }

    /// A record has this owner from now on.
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
