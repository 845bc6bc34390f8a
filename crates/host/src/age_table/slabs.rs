//! The memory of chunks: slabs of 64 chunks that have the same number of places for records.
//!
//! A chunk's size follows its number of records. A narrow chunk has a place for each of its 64
//! frames. A wide chunk has as many places as it needs, in multiples of [`GROWTH`], and for each
//! record the offset of the record's frame in the range. A chunk stores an owner for each record
//! only if its records have several owners.
//!
//! Invariant: all chunks of a slab are of the slab's kind; a slab without chunks is freed; a chunk
//! without space for owners is not `mixed`.

use super::age_record::{AgeRecord, Size};
use super::head::ChunkHead;

/// Number of places for records in a narrow chunk, and the most that a wide chunk has.
pub(super) const PLACES: usize = 64;
/// Number of places by which a wide chunk grows.
const GROWTH: usize = 8;
/// Number of kinds of chunks.
const KINDS: usize = (PLACES / GROWTH + 1) * 2;

/// Layout of a chunk: narrow or wide, number of places, and whether it stores an owner for each
/// record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Narrow {
        mixed: bool,
    },
    /// A wide chunk; `places` is a multiple of [`GROWTH`].
    Wide {
        places: usize,
        mixed: bool,
    },
}

impl Kind {
    /// Returns the smallest kind that this number of records fits in.
    pub(super) fn of(is_narrow: bool, records: usize, mixed: bool) -> Kind {
        let places = records.next_multiple_of(GROWTH).clamp(GROWTH, PLACES);
        match is_narrow {
            true => Kind::Narrow { mixed },
            false => Kind::Wide { places, mixed },
        }
    }

    /// Returns the same kind with space for an owner of each record.
    pub(super) const fn with_owners(self) -> Kind {
        match self {
            Kind::Narrow { .. } => Kind::Narrow { mixed: true },
            Kind::Wide { places, .. } => Kind::Wide {
                places,
                mixed: true,
            },
        }
    }

    /// Returns whether the chunk stores an owner for each record.
    pub(super) const fn is_mixed(self) -> bool {
        matches!(
            self,
            Kind::Narrow { mixed: true } | Kind::Wide { mixed: true, .. }
        )
    }

    /// Returns the number of places for records.
    pub(super) const fn places(self) -> usize {
        match self {
            Kind::Narrow { .. } => PLACES,
            Kind::Wide { places, .. } => places,
        }
    }

    /// Returns the number of the kind, below [`KINDS`].
    const fn number(self) -> usize {
        let step = match self {
            Kind::Narrow { .. } => 0,
            Kind::Wide { places, .. } => places / GROWTH,
        };
        step * 2 + self.is_mixed() as usize
    }
}

/// 64 chunks of one kind. Each field of all chunks is one array, so that a scan's end reads
/// contiguous memory.
#[derive(Debug)]
struct Slab {
    kind: Kind,
    /// Bit mask of the chunks in use.
    taken: u64,
    heads: [ChunkHead; 64],
    words: Box<[AgeRecord]>,
    /// Owner of each record; empty unless the kind is mixed.
    owners: Box<[u16]>,
    /// In wide chunks, the offset of each record's frame in the range; meaningless at places
    /// without a record.
    offsets: Box<[u16]>,
}

/// One chunk, borrowed to be changed.
pub(super) struct Chunk<'a> {
    pub(super) head: &'a mut ChunkHead,
    pub(super) words: &'a mut [AgeRecord],
    owners: &'a mut [u16],
    offsets: &'a mut [u16],
}

/// All slabs. A chunk's id is its slab's number times 64, plus its index in the slab.
#[derive(Debug)]
pub(super) struct Slabs {
    all: Vec<Option<Box<Slab>>>,
    /// Slab numbers that are unused.
    free: Vec<u32>,
    /// For each kind, numbers of slabs that had a free chunk when listed. Some may be full or of
    /// another kind by now.
    roomy: [Vec<u32>; KINDS],
}

impl Slab {
    fn new(kind: Kind) -> Box<Slab> {
        let all = kind.places() * 64;
        let offsets = match kind {
            Kind::Narrow { .. } => 0,
            Kind::Wide { .. } => all,
        };
        Box::new(Slab {
            kind,
            taken: 0,
            heads: [ChunkHead::EMPTY; 64],
            words: vec![AgeRecord::fresh(0, Size::One); all].into(),
            owners: vec![0; if kind.is_mixed() { all } else { 0 }].into(),
            offsets: vec![0; offsets].into(),
        })
    }

    fn memory_bytes(&self) -> usize {
        let each_16 = self.owners.len() + self.offsets.len();
        size_of::<Slab>() + self.words.len() * size_of::<AgeRecord>() + each_16 * 2
    }
}

/// Returns the elements of a slab's array that belong to its chunk `at`; empty if the array is
/// empty.
#[inline]
fn part<T>(all: &mut [T], at: usize, places: usize) -> &mut [T] {
    all.get_mut(at * places..(at + 1) * places)
        .unwrap_or_default()
}

/// Returns the offset, within its chunk's range, of the record at place `at`. A narrow chunk stores
/// no offsets: there the offset is the place itself.
pub(super) fn offset_at(offsets: &[u16], at: usize) -> u16 {
    let narrow = u16::try_from(at).unwrap_or(u16::MAX);
    offsets.get(at).copied().unwrap_or(narrow)
}

/// Returns how many of the first slabs of a kind can be emptied into the others; 0 if no more than
/// about an eighth of all places is empty. `slabs`: number of chunks in use, then number of the
/// slab; in ascending order.
fn emptied(slabs: &[(u32, u32)]) -> usize {
    let mut free: u32 = slabs.iter().map(|(used, _)| 64 - used).sum();
    if free as usize <= slabs.len() * 8 + 64 {
        return 0;
    }
    let mut moved = 0;
    let fits = slabs.iter().take_while(|(used, _)| {
        moved += used;
        free -= 64 - used;
        moved <= free
    });
    fits.count()
}

impl Chunk<'_> {
    /// Returns the offset of a record's frame in the chunk's range.
    pub(super) fn offset(&self, at: usize) -> u16 {
        offset_at(self.offsets, at)
    }

    /// Returns the place for a new record. `number`: how many records the chunk has; `offset`: the
    /// frame's offset in the range.
    pub(super) fn place(&mut self, number: usize, offset: u16) -> usize {
        match self.offsets.get_mut(number) {
            Some(place) => {
                *place = offset;
                number
            }
            None => usize::from(offset),
        }
    }

    /// Returns the owner of a record.
    #[inline]
    pub(super) fn owner(&self, at: usize) -> u16 {
        self.owners.get(at).copied().unwrap_or(self.head.sole)
    }

    /// Sets the owner of a record; the chunk must have space for it ([`Chunk::has_room_for`]).
    #[inline]
    pub(super) fn set_owner(&mut self, at: usize, owner: u16) {
        self.head.owned_by(owner);
        match self.owners.get_mut(at) {
            Some(place) => *place = owner,
            None => debug_assert!(!self.head.mixed, "there is no room for a second owner"),
        }
    }

    /// Returns whether a record in this chunk can have this owner.
    #[inline]
    pub(super) fn has_room_for(&self, owner: u16) -> bool {
        !self.owners.is_empty() || self.head.live == 0 || self.head.sole == owner
    }
}

impl Slabs {
    pub(super) const fn new() -> Slabs {
        Slabs {
            all: Vec::new(),
            free: Vec::new(),
            roomy: [const { Vec::new() }; KINDS],
        }
    }

    /// Upper bound (exclusive) of chunk ids.
    pub(super) fn ids(&self) -> u32 {
        u32::try_from(self.all.len() * 64).unwrap_or(u32::MAX)
    }

    fn slab(&self, number: u32) -> Option<&Slab> {
        self.all.get(number as usize)?.as_deref()
    }

    /// Returns the chunk with this id, whether it is in use or not.
    #[inline]
    pub(super) fn chunk(&mut self, id: u32) -> Option<Chunk<'_>> {
        let slab = self.all.get_mut(id as usize >> 6)?.as_deref_mut()?;
        let (at, places) = ((id & 63) as usize, slab.kind.places());
        Some(Chunk {
            head: &mut slab.heads[at],
            words: part(&mut slab.words, at, places),
            owners: part(&mut slab.owners, at, places),
            offsets: part(&mut slab.offsets, at, places),
        })
    }

    #[inline]
    pub(super) fn head(&self, id: u32) -> Option<&ChunkHead> {
        Some(&self.slab(id >> 6)?.heads[(id & 63) as usize])
    }

    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        Some(self.slab(id >> 6)?.kind)
    }

    /// Returns the offsets of a wide chunk's records.
    pub(super) fn offsets(&self, id: u32) -> &[u16] {
        let Some(slab) = self.slab(id >> 6) else {
            return &[];
        };
        let (at, places) = ((id & 63) as usize, slab.kind.places());
        let part = slab.offsets.get(at * places..(at + 1) * places);
        part.unwrap_or_default()
    }

    /// Returns the owner and the age record at place `at` of a chunk.
    pub(super) fn record(&self, id: u32, at: usize) -> Option<(u16, AgeRecord)> {
        let slab = self.slab(id >> 6)?;
        let chunk = (id & 63) as usize;
        let place = chunk * slab.kind.places() + at;
        let owner = slab.owners.get(place).copied();
        let owner = owner.unwrap_or(slab.heads[chunk].sole);
        Some((owner, *slab.words.get(place)?))
    }

    /// Allocates an empty chunk of a kind; returns its id.
    pub(super) fn allocate(&mut self, kind: Kind) -> u32 {
        let number = self.with_room(kind);
        let place = self.all[number as usize].get_or_insert_with(|| Slab::new(kind));
        let free = place.taken.trailing_ones();
        assert!(free < 64, "the slab has room");
        place.taken |= 1 << free;
        place.heads[free as usize] = ChunkHead::EMPTY;
        if place.taken == u64::MAX {
            self.roomy[kind.number()].pop();
        }
        number << 6 | free
    }

    /// Returns the number of a slab of a kind with a free chunk; that slab is the last in the
    /// kind's list.
    fn with_room(&mut self, kind: Kind) -> u32 {
        let roomy = &mut self.roomy[kind.number()];
        while let Some(&number) = roomy.last() {
            let slab = self.all[number as usize].as_ref();
            if slab.is_some_and(|slab| slab.kind == kind && slab.taken != u64::MAX) {
                return number;
            }
            roomy.pop();
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            let number = u32::try_from(self.all.len() - 1).ok();
            // 2^26 slabs hold records of 2^38 frames: a petabyte of memory, all of it watched.
            number
                .filter(|number| *number < 1 << 26)
                .expect("fewer frames")
        });
        self.roomy[kind.number()].push(number);
        number
    }

    /// Frees an empty chunk; frees its slab, too, if no chunk remains in it.
    pub(super) fn free_chunk(&mut self, id: u32) {
        let (number, bit) = (id >> 6, 1_u64 << (id & 63));
        let Some(slab) = self.all[number as usize].as_mut() else {
            return;
        };
        let head = &slab.heads[(id & 63) as usize];
        assert!(
            slab.taken & bit != 0 && head.live == 0,
            "only an empty chunk is given back"
        );
        if slab.taken == u64::MAX {
            self.roomy[slab.kind.number()].push(number);
        }
        slab.taken &= !bit;
        if slab.taken == 0 {
            self.all[number as usize] = None;
            self.free.push(number);
        }
    }

    /// Moves all records of the chunk `id` into a new chunk of `kind`, and frees the old chunk.
    /// Returns the id of the new chunk. The records must fit in it. In a wide chunk the moved
    /// records have no empty places between them.
    pub(super) fn moved(&mut self, id: u32, kind: Kind) -> u32 {
        let new = self.allocate(kind);
        let Some(from) = self.chunk(id) else {
            return new;
        };
        let head = *from.head;
        let records: Vec<(usize, AgeRecord, u16, u16)> = (0..PLACES)
            .filter(|at| head.live >> at & 1 == 1)
            .map(|at| (at, from.words[at], from.owner(at), from.offset(at)))
            .collect();
        from.head.live = 0;
        self.free_chunk(id);
        let Some(mut to) = self.chunk(new) else {
            return new;
        };
        let mut moved = head;
        (moved.live, moved.seen) = (0, 0);
        for (number, (before, word, owner, offset)) in records.into_iter().enumerate() {
            let at = to.place(number, offset);
            moved.live |= 1 << at;
            moved.seen |= (head.seen >> before & 1) << at;
            to.words[at] = word;
            if let Some(place) = to.owners.get_mut(at) {
                *place = owner;
            }
        }
        *to.head = moved;
        debug_assert!(kind.is_mixed() || !moved.mixed, "several owners need room");
        new
    }

    /// If more than an eighth of a kind's places is empty, moves the chunks of the emptiest slabs
    /// into the others. Calls `reported` with the head and the new id of each moved chunk.
    pub(super) fn pack(&mut self, mut reported: impl FnMut(&ChunkHead, u32)) {
        let mut by_kind = [const { Vec::new() }; KINDS];
        for (number, slab) in (0_u32..).zip(&self.all) {
            if let Some(slab) = slab {
                by_kind[slab.kind.number()].push((slab.taken.count_ones(), number));
            }
        }
        for (kind, mut slabs) in by_kind.into_iter().enumerate() {
            slabs.retain(|(used, _)| *used < 64);
            slabs.sort_unstable();
            let emptied_count = emptied(&slabs);
            let slabs: Vec<u32> = slabs.into_iter().map(|(_, number)| number).collect();
            // The fullest slabs are filled first.
            self.roomy[kind] = slabs[emptied_count..].to_vec();
            for number in &slabs[..emptied_count] {
                self.empty(*number, &mut reported);
            }
        }
    }

    /// Moves the chunks of a slab into other slabs of its kind, which must have space.
    fn empty(&mut self, number: u32, reported: &mut impl FnMut(&ChunkHead, u32)) {
        while let Some(slab) = &self.all[number as usize] {
            let id = number << 6 | slab.taken.trailing_zeros();
            let new = self.moved(id, slab.kind);
            if let Some(head) = self.head(new) {
                reported(head, new);
            }
        }
    }

    /// Returns the ids of all chunks in use.
    #[cfg(test)]
    pub(super) fn taken(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for (number, slab) in (0_u32..).zip(&self.all) {
            let Some(slab) = slab else { continue };
            assert_ne!(slab.taken, 0, "a slab without chunks is freed");
            let taken = (0..64).filter(|at| slab.taken >> at & 1 == 1);
            all.extend(taken.map(|at| number << 6 | at));
        }
        all
    }

    /// Returns the heap memory of all slabs, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let slabs: usize = self
            .all
            .iter()
            .flatten()
            .map(|slab| slab.memory_bytes())
            .sum();
        let pointers = self.all.capacity() * size_of::<Option<Box<Slab>>>();
        let roomy: usize = self.roomy.iter().map(Vec::capacity).sum();
        slabs + pointers + (roomy + self.free.capacity()) * size_of::<u32>()
    }
}
