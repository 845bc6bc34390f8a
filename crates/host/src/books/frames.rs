//! The records of all frames, in chunks of 64 neighbours, in slabs of 64 chunks.
//!
//! Invariant: a chunk is in the index if and only if it has a record; `seen` is a subset of `live`
//! and of round `round` only; if a chunk is not `mixed`, all its records belong to `sole`. A record
//! for 512 or more frames stands at the first of them, and none of the others has one.

use super::index::Index;
use super::word::{Size, Word};

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
    /// Which frames have a record, and which of them were seen in `round`.
    pub(super) live: u64,
    pub(super) seen: u64,
    /// The chunk's number: that of its first frame over 64.
    pub(super) number: u64,
    pub(super) round: u32,
    /// The owner of all records, unless they have several.
    pub(super) sole: u16,
    pub(super) mixed: bool,
    /// Who saw in `round` a frame of an owner that had not been read yet.
    pub(super) early: Option<Seer>,
    /// The last reading of some record's owner missed it, and the record is still there.
    pub(super) stale: bool,
}

const EMPTY: Head = Head {
    live: 0,
    seen: 0,
    number: 0,
    round: NEVER,
    sole: 0,
    mixed: false,
    early: None,
    stale: false,
};

/// 64 chunks. What a sweep reads stands together.
#[derive(Debug)]
struct Slab {
    /// Which chunks are in use.
    taken: u64,
    heads: [Head; 64],
    words: [[Word; 64]; 64],
    owners: [[u16; 64]; 64],
}

/// One chunk, to be read and changed.
pub(super) struct Chunk<'a> {
    pub(super) head: &'a mut Head,
    pub(super) words: &'a mut [Word; 64],
    pub(super) owners: &'a mut [u16; 64],
}

/// All records.
#[derive(Debug)]
pub(super) struct Frames {
    slabs: Vec<Option<Box<Slab>>>,
    /// Slabs with a free chunk, each once.
    roomy: Vec<u32>,
    index: Index,
    /// The chunk that was looked up last, by its number.
    cursor: (u64, u32),
}

impl Slab {
    fn new() -> Box<Slab> {
        let nothing = Word::fresh(0, Size::One);
        let (words, owners) = ([[nothing; 64]; 64], [[0; 64]; 64]);
        Box::new(Slab {
            taken: 0,
            heads: [EMPTY; 64],
            words,
            owners,
        })
    }
}

impl Head {
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

impl Frames {
    pub(super) fn new() -> Frames {
        let cursor = (u64::MAX, 0);
        Frames {
            slabs: Vec::new(),
            roomy: Vec::new(),
            index: Index::default(),
            cursor,
        }
    }

    /// The chunk with this number, if it has a record.
    #[inline]
    pub(super) fn find(&mut self, number: u64) -> Option<Chunk<'_>> {
        if self.cursor.0 != number {
            self.cursor = (number, self.index.get(number)?);
        }
        self.chunk(self.cursor.1)
    }

    /// The chunk with this number, without records if it had none: the caller adds one at once.
    pub(super) fn find_or_make(&mut self, number: u64) -> Option<Chunk<'_>> {
        if self.cursor.0 != number && self.index.get(number).is_none() {
            let id = self.take_chunk();
            self.index.insert(number, id);
            if let Some(chunk) = self.chunk(id) {
                assert_eq!(chunk.head.live, 0, "a free chunk has no records");
                *chunk.head = Head { number, ..EMPTY };
            }
        }
        self.find(number)
    }

    /// The record of a frame.
    pub(super) fn peek(&self, frame: u64) -> Option<Word> {
        let id = self.index.get(frame >> 6)?;
        let slab = self.slabs.get(id as usize >> 6)?.as_ref()?;
        let (chunk, at) = ((id & 63) as usize, (frame & 63) as usize);
        (slab.heads[chunk].live >> at & 1 == 1).then(|| slab.words[chunk][at])
    }

    /// The owner and the record that a frame is under, be it a page's or a huge leaf's.
    pub(super) fn record_of(&self, frame: u64) -> Option<(u16, Word)> {
        [Size::One, Size::Huge, Size::Giant]
            .into_iter()
            .find_map(|size| {
                let first = frame & !(size.pages() - 1);
                let id = self.index.get(first >> 6)?;
                let slab = self.slabs.get(id as usize >> 6)?.as_ref()?;
                let (chunk, at) = ((id & 63) as usize, (first & 63) as usize);
                let word = slab.words[chunk][at];
                let holds = slab.heads[chunk].live >> at & 1 == 1 && word.has_size(size);
                holds.then(|| (slab.owners[chunk][at], word))
            })
    }

    /// The chunks with records among the frames of a huge leaf, by id.
    pub(super) fn within(&self, frame: u64, size: Size) -> Vec<u32> {
        debug_assert!(
            frame.is_multiple_of(size.pages()),
            "huge leaves are aligned"
        );
        let regions = (frame..frame + size.pages()).step_by(512);
        regions
            .flat_map(|region| self.index.in_region(region >> 6))
            .collect()
    }

    /// The chunk with this id.
    #[inline]
    pub(super) fn chunk(&mut self, id: u32) -> Option<Chunk<'_>> {
        let slab = self.slabs.get_mut(id as usize >> 6)?.as_mut()?;
        let at = (id & 63) as usize;
        let (head, words) = (&mut slab.heads[at], &mut slab.words[at]);
        Some(Chunk {
            head,
            words,
            owners: &mut slab.owners[at],
        })
    }

    /// Ids of chunks go up to here.
    pub(super) fn ids(&self) -> u32 {
        u32::try_from(self.slabs.len() * 64).unwrap_or(u32::MAX)
    }

    fn take_chunk(&mut self) -> u32 {
        let slab = loop {
            match self.roomy.last() {
                Some(&slab) => break slab,
                None => {
                    let slabs = u32::try_from(self.slabs.len()).ok();
                    // 2^26 slabs are 2^38 frames: a petabyte of memory, all of it watched.
                    let slab = slabs.filter(|slab| *slab < 1 << 26).expect("fewer frames");
                    self.slabs.push(None);
                    self.roomy.push(slab);
                }
            }
        };
        let place = self.slabs[slab as usize].get_or_insert_with(Slab::new);
        let free = (!place.taken).trailing_zeros();
        assert!(free < 64, "the slab has room");
        place.taken |= 1 << free;
        if place.taken == u64::MAX {
            self.roomy.pop();
        }
        slab << 6 | free
    }

    /// Gives back a chunk whose last record has gone; a slab without chunks is freed.
    pub(super) fn release(&mut self, id: u32) {
        let (slab, bit) = (id >> 6, 1_u64 << (id & 63));
        let Some(place) = self.slabs[slab as usize].as_mut() else {
            return;
        };
        let head = &place.heads[(id & 63) as usize];
        assert!(
            place.taken & bit != 0 && head.live == 0,
            "only an empty chunk is given back"
        );
        self.index.remove(head.number);
        self.cursor.0 = u64::MAX;
        if place.taken == u64::MAX {
            self.roomy.push(slab);
        }
        place.taken &= !bit;
        if place.taken == 0 {
            self.slabs[slab as usize] = None;
        }
        debug_assert!(!self.roomy.is_empty(), "there is room where a chunk was");
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let slabs = self.slabs.iter().flatten().count() * size_of::<Slab>();
        let pointers = self.slabs.capacity() * size_of::<Option<Box<Slab>>>();
        let roomy = self.roomy.capacity() * size_of::<u32>();
        slabs + pointers + roomy + self.index.memory_bytes()
    }
}
