//! The page-state word: one atomic `u64` a page, in memory that keeper and manager share.
//!
//! Invariant: at any instant the word names one good copy of the page's bytes
//! (`ARCHITECTURE.md`, "Page states"), so that either side may be killed between any two steps.
//!
//! ```text
//! bit  0..3   state                     bit 3       limbo copy still there (with STORED)
//! bit  4      young: came back by a fault since the last aging pass
//! bit  5      group: moved aside with its neighbours, to come back and be young with them
//! bit  6      (LIMBO) wide: its group may be as large as a chunk
//! bit  6..9   kind of the stored bytes  bit 9       tier: 0 pool (memory), 1 file
//! bit 10..23  stored length in bytes, 1..=4096      bit 23..64  offset in 16-byte units
//! bit 32..64  (kind SAME) the repeated 32-bit word
//! ```

/// Bytes of a base page; the only size the table knows.
pub const PAGE_SIZE: usize = 4096;

/// Where the good copy of a page is. Discriminants are the low three bits of the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Never seen, or removed by the program: a fault is answered with zeros.
    None = 0,
    /// In the program's page table.
    Mapped = 1,
    /// Resident, moved aside: the next touch moves it back.
    Limbo = 2,
    /// In limbo and being copied to the store by the manager; a fault cancels it.
    Writeback = 3,
    /// In the store.
    Stored = 4,
}

const STATE_MASK: u64 = 0b111;
const IN_LIMBO: u64 = 1 << 3;
const YOUNG: u64 = 1 << 4;
const GROUP: u64 = 1 << 5;
/// Of a word in state `Limbo` only.
const WIDE: u64 = 1 << 6;
const PLACE_MASK: u64 = !0b11_1111;

/// One page's state as read from the table. Values other than those built here (a hostile target
/// can write any) decode to a state of `None` or a place that the readers bounds-check.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Word(pub u64);

impl Word {
    /// Never seen.
    pub const NONE: Word = Word(State::None as u64);
    /// In the page table, not proven young.
    pub const MAPPED: Word = Word(State::Mapped as u64);
    /// In the page table, brought back by a fault.
    pub const MAPPED_YOUNG: Word = Word(State::Mapped as u64 | YOUNG);
    /// Moved aside.
    pub const LIMBO: Word = Word(State::Limbo as u64);
    /// Moved aside with its neighbours: one touch brings all of them back.
    pub const LIMBO_GROUP: Word = Word(State::Limbo as u64 | GROUP);
    /// The same, and its neighbours may be all of its chunk.
    pub const LIMBO_WIDE: Word = Word(State::Limbo as u64 | GROUP | WIDE);
    /// Moved aside, being copied.
    pub const WRITEBACK: Word = Word(State::Writeback as u64);

    /// A page whose bytes are safe at `place`; `in_limbo` while the resident copy is not dropped.
    #[must_use]
    pub const fn stored(place: Place, in_limbo: bool) -> Word {
        let limbo = if in_limbo { IN_LIMBO } else { 0 };
        Word(State::Stored as u64 | limbo | place.0)
    }

    /// The state; unknown bit patterns are `None`.
    #[must_use]
    pub const fn state(self) -> State {
        match self.0 & STATE_MASK {
            1 => State::Mapped,
            2 => State::Limbo,
            3 => State::Writeback,
            4 => State::Stored,
            _ => State::None,
        }
    }

    /// Whether the limbo range holds the page's bytes.
    #[must_use]
    pub const fn in_limbo(self) -> bool {
        match self.state() {
            State::Limbo | State::Writeback => true,
            State::Stored => self.0 & IN_LIMBO != 0,
            State::None | State::Mapped => false,
        }
    }

    /// The same word after the limbo copy was dropped.
    #[must_use]
    pub const fn limbo_dropped(self) -> Word {
        Word(self.0 & !IN_LIMBO)
    }

    /// Whether a fault brought the page back since the manager last cleared the bit.
    #[must_use]
    pub const fn young(self) -> bool {
        self.0 & YOUNG != 0
    }

    /// Whether the page returns from limbo together with its neighbours.
    #[must_use]
    pub const fn group(self) -> bool {
        self.0 & GROUP != 0
    }

    /// Whether those may be all of the chunk.
    #[must_use]
    pub const fn wide(self) -> bool {
        matches!(self.state(), State::Limbo) && self.0 & WIDE != 0
    }

    /// The same word with the young bit cleared.
    #[must_use]
    pub const fn aged(self) -> Word {
        Word(self.0 & !YOUNG)
    }

    /// Where the bytes are, for a stored page.
    #[must_use]
    pub const fn place(self) -> Option<Place> {
        match self.state() {
            State::Stored => Some(Place(self.0 & PLACE_MASK)),
            _ => None,
        }
    }
}

/// How the bytes of a stored page are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// One 32-bit word repeated 1024 times: takes no space.
    Same = 0,
    /// An lz4 block.
    Lz4 = 1,
    /// A zstd frame.
    Zstd = 2,
    /// The page itself.
    Raw = 3,
    /// The page itself, in the keeper's own snapshot file: what was in limbo when a child was forked.
    Snapshot = 4,
}

/// Which file holds the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tier {
    /// The memfd pool.
    Pool = 0,
    /// The file under it.
    File = 1,
}

/// Where a stored page's bytes are: the bits 6..64 of a stored word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place(u64);

/// Granule of slot offsets and of reference counts, bytes.
pub const SLOT_GRANULE: u64 = 64;
const OFFSET_UNIT: u64 = 16;
/// First offset that a place cannot express, bytes.
pub const PLACE_OFFSET_END: u64 = (1 << 41) * OFFSET_UNIT;

/// A slot: a byte range of the pool or of the file tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Which file.
    pub tier: Tier,
    /// How the bytes are encoded (never `Same`).
    pub kind: Kind,
    /// Byte offset, a multiple of [`SLOT_GRANULE`].
    pub offset: u64,
    /// Encoded length in bytes, `1..=4096`.
    pub len: u16,
}

/// A place decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// Every 32-bit word of the page is this one.
    Same(u32),
    /// The bytes are in a slot.
    Slot(Slot),
}

impl Place {
    /// The place of a page that is one repeated word.
    #[must_use]
    pub const fn same(word: u32) -> Place {
        Place((word as u64) << 32)
    }

    /// The place of a slot; `None` if offset, length or kind cannot be expressed.
    #[must_use]
    pub const fn slot(slot: Slot) -> Option<Place> {
        if !slot.offset.is_multiple_of(SLOT_GRANULE)
            || slot.offset >= PLACE_OFFSET_END
            || slot.len == 0
            || slot.len as usize > PAGE_SIZE
            || matches!(slot.kind, Kind::Same)
        {
            return None;
        }
        Some(Place(
            (slot.kind as u64) << 6
                | (slot.tier as u64) << 9
                | (slot.len as u64) << 10
                | (slot.offset / OFFSET_UNIT) << 23,
        ))
    }

    /// Decodes; `None` for bit patterns that no [`Place::slot`] builds (a hostile target's).
    #[must_use]
    pub const fn bytes(self) -> Option<Bytes> {
        let kind = match (self.0 >> 6) & 0b111 {
            0 => return Some(Bytes::Same((self.0 >> 32) as u32)),
            1 => Kind::Lz4,
            2 => Kind::Zstd,
            3 => Kind::Raw,
            4 => Kind::Snapshot,
            _ => return None,
        };
        let tier = if self.0 & (1 << 9) == 0 {
            Tier::Pool
        } else {
            Tier::File
        };
        let len = ((self.0 >> 10) & 0x1fff) as u16;
        let offset = (self.0 >> 23) * OFFSET_UNIT;
        let slot = Slot {
            tier,
            kind,
            offset,
            len,
        };
        match Place::slot(slot) {
            Some(_) => Some(Bytes::Slot(slot)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip_at_the_edges() {
        for kind in [Kind::Lz4, Kind::Zstd, Kind::Raw, Kind::Snapshot] {
            for tier in [Tier::Pool, Tier::File] {
                for len in [1, 63, 4095, 4096] {
                    for offset in [0, 64, PLACE_OFFSET_END - 64] {
                        let slot = Slot {
                            tier,
                            kind,
                            offset,
                            len,
                        };
                        let word = Word::stored(Place::slot(slot).expect("expressible"), true);
                        assert_eq!(word.state(), State::Stored);
                        assert!(word.in_limbo() && !word.limbo_dropped().in_limbo());
                        assert_eq!(word.place().and_then(Place::bytes), Some(Bytes::Slot(slot)));
                    }
                }
            }
        }
        let same = Word::stored(Place::same(0xdead_beef), false);
        assert_eq!(
            same.place().and_then(Place::bytes),
            Some(Bytes::Same(0xdead_beef))
        );
    }

    #[test]
    fn what_no_place_expresses_is_refused() {
        let slot = Slot {
            tier: Tier::Pool,
            kind: Kind::Raw,
            offset: 64,
            len: 4096,
        };
        assert!(Place::slot(Slot { offset: 65, ..slot }).is_none());
        assert!(Place::slot(Slot { len: 0, ..slot }).is_none());
        assert!(Place::slot(Slot { len: 4097, ..slot }).is_none());
        assert!(
            Place::slot(Slot {
                kind: Kind::Same,
                ..slot
            })
            .is_none()
        );
        assert!(
            Place::slot(Slot {
                offset: PLACE_OFFSET_END,
                ..slot
            })
            .is_none()
        );
        assert_eq!(Word(0b111).state(), State::None);
        assert_eq!(Place(7 << 6).bytes(), None);
    }
}
