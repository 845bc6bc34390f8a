//! The memory of chunks: slabs of 64 chunks that have room for equally many records.
//!
//! A chunk's room follows its records: a narrow one has a place for each of its 64 frames, a wide one
//! as many as it needs, in steps of [`STEP`], and where in its range each stands; owners are kept for
//! each record only where records of a chunk have several.
//!
//! Invariant: all chunks of a slab are of its kind; a slab without chunks is freed; a chunk without
//! room for owners is not `mixed`.

use super::head::Head;
use super::word::{Size, Word};

/// Places of a narrow chunk, and of a wide one at most.
pub(super) const PLACES: usize = 64;
/// The room of a wide chunk grows by so many places.
const STEP: usize = 8;
const KINDS: usize = (PLACES / STEP + 1) * 2;

/// What a chunk has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Narrow {
        mixed: bool,
    },
    /// `places` is a multiple of [`STEP`].
    Wide {
        places: usize,
        mixed: bool,
    },
}

impl Kind {
    /// The least that so many records fit in.
    pub(super) fn of(is_narrow: bool, records: usize, mixed: bool) -> Kind {
        let places = records.next_multiple_of(STEP).clamp(STEP, PLACES);
        match is_narrow {
            true => Kind::Narrow { mixed },
            false => Kind::Wide { places, mixed },
        }
    }

    /// The same with room for an owner of each record.
    pub(super) const fn with_owners(self) -> Kind {
        match self {
            Kind::Narrow { .. } => Kind::Narrow { mixed: true },
            Kind::Wide { places, .. } => Kind::Wide {
                places,
                mixed: true,
            },
        }
    }

    pub(super) const fn is_mixed(self) -> bool {
        matches!(
            self,
            Kind::Narrow { mixed: true } | Kind::Wide { mixed: true, .. }
        )
    }

    pub(super) const fn places(self) -> usize {
        match self {
            Kind::Narrow { .. } => PLACES,
            Kind::Wide { places, .. } => places,
        }
    }

    const fn number(self) -> usize {
        let step = match self {
            Kind::Narrow { .. } => 0,
            Kind::Wide { places, .. } => places / STEP,
        };
        step * 2 + self.is_mixed() as usize
    }
}

/// 64 chunks. What a sweep reads stands together.
#[derive(Debug)]
struct Slab {
    kind: Kind,
    /// Which chunks are in use.
    taken: u64,
    heads: [Head; 64],
    words: Box<[Word]>,
    /// None but of mixed ones.
    owners: Box<[u16]>,
    /// Of wide ones, how far into the range each record's frame is; of places that are not live anything.
    offsets: Box<[u16]>,
}

/// One chunk, to be read and changed.
pub(super) struct Chunk<'a> {
    pub(super) head: &'a mut Head,
    pub(super) words: &'a mut [Word],
    owners: &'a mut [u16],
    offsets: &'a mut [u16],
}

/// All slabs. A chunk's id is its slab's number times 64, and its own within the slab.
#[derive(Debug)]
pub(super) struct Slabs {
    all: Vec<Option<Box<Slab>>>,
    /// Numbers without a slab.
    free: Vec<u32>,
    /// By kind, slabs that had a free chunk; some may have none any more, or be of another kind.
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
            heads: [Head::EMPTY; 64],
            words: vec![Word::fresh(0, Size::One); all].into(),
            owners: vec![0; if kind.is_mixed() { all } else { 0 }].into(),
            offsets: vec![0; offsets].into(),
        })
    }

    fn memory_bytes(&self) -> usize {
        let each_16 = self.owners.len() + self.offsets.len();
        size_of::<Slab>() + self.words.len() * size_of::<Word>() + each_16 * 2
    }
}

/// The part of an array that is one chunk's: nothing where the array has no places.
#[inline]
fn part<T>(all: &mut [T], at: usize, places: usize) -> &mut [T] {
    all.get_mut(at * places..(at + 1) * places)
        .unwrap_or_default()
}

/// How far into the range the record at a place is: in a narrow chunk, which keeps no offsets, as far as its place.
pub(super) fn offset_at(offsets: &[u16], at: usize) -> u16 {
    let narrow = u16::try_from(at).unwrap_or(u16::MAX);
    offsets.get(at).copied().unwrap_or(narrow)
}

/// How many of the slabs of a kind, by how many of their chunks are used and ascending, the others have room for:
/// none where hardly more than an eighth of all places is empty.
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
    /// How far into the chunk's range a record's frame is.
    pub(super) fn offset(&self, at: usize) -> u16 {
        offset_at(self.offsets, at)
    }

    /// The place of the record with this number, counted from 0, whose frame is so far into the range.
    pub(super) fn place(&mut self, number: usize, offset: u16) -> usize {
        match self.offsets.get_mut(number) {
            Some(place) => {
                *place = offset;
                number
            }
            None => usize::from(offset),
        }
    }

    /// The owner of a record.
    #[inline]
    pub(super) fn owner(&self, at: usize) -> u16 {
        self.owners.get(at).copied().unwrap_or(self.head.sole)
    }

    /// A record's owner is this one from now on; the chunk has room to say so.
    #[inline]
    pub(super) fn set_owner(&mut self, at: usize, owner: u16) {
        self.head.owned_by(owner);
        match self.owners.get_mut(at) {
            Some(place) => *place = owner,
            None => debug_assert!(!self.head.mixed, "there is no room for a second owner"),
        }
    }

    /// Whether a record can have this owner here.
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

    /// Ids of chunks go up to here.
    pub(super) fn ids(&self) -> u32 {
        u32::try_from(self.all.len() * 64).unwrap_or(u32::MAX)
    }

    fn slab(&self, number: u32) -> Option<&Slab> {
        self.all.get(number as usize)?.as_deref()
    }

    /// The chunk with this id, in use or not.
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
    pub(super) fn head(&self, id: u32) -> Option<&Head> {
        Some(&self.slab(id >> 6)?.heads[(id & 63) as usize])
    }

    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        Some(self.slab(id >> 6)?.kind)
    }

    /// Where in the range of a wide chunk its records stand.
    pub(super) fn offsets(&self, id: u32) -> &[u16] {
        let Some(slab) = self.slab(id >> 6) else {
            return &[];
        };
        let (at, places) = ((id & 63) as usize, slab.kind.places());
        let part = slab.offsets.get(at * places..(at + 1) * places);
        part.unwrap_or_default()
    }

    /// Owner and word of a record.
    pub(super) fn record(&self, id: u32, at: usize) -> Option<(u16, Word)> {
        let slab = self.slab(id >> 6)?;
        let chunk = (id & 63) as usize;
        let place = chunk * slab.kind.places() + at;
        let owner = slab.owners.get(place).copied();
        let owner = owner.unwrap_or(slab.heads[chunk].sole);
        Some((owner, *slab.words.get(place)?))
    }

    /// An empty chunk of a kind.
    pub(super) fn take(&mut self, kind: Kind) -> u32 {
        let number = self.with_room(kind);
        let place = self.all[number as usize].get_or_insert_with(|| Slab::new(kind));
        let free = place.taken.trailing_ones();
        assert!(free < 64, "the slab has room");
        place.taken |= 1 << free;
        place.heads[free as usize] = Head::EMPTY;
        if place.taken == u64::MAX {
            self.roomy[kind.number()].pop();
        }
        number << 6 | free
    }

    /// The number of a slab of a kind that has room; last in its list.
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
            // 2^26 slabs are 2^38 frames: a petabyte of memory, all of it watched.
            number
                .filter(|number| *number < 1 << 26)
                .expect("fewer frames")
        });
        self.roomy[kind.number()].push(number);
        number
    }

    /// An empty chunk is free; a slab without chunks is freed.
    pub(super) fn give_back(&mut self, id: u32) {
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

    /// The records of a chunk move into one of another kind that they fit in: its id. Those of a wide one
    /// move together.
    pub(super) fn moved(&mut self, id: u32, kind: Kind) -> u32 {
        let new = self.take(kind);
        let Some(from) = self.chunk(id) else {
            return new;
        };
        let head = *from.head;
        let records: Vec<(usize, Word, u16, u16)> = (0..PLACES)
            .filter(|at| head.live >> at & 1 == 1)
            .map(|at| (at, from.words[at], from.owner(at), from.offset(at)))
            .collect();
        from.head.live = 0;
        self.give_back(id);
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

    /// Where more than an eighth of a kind's places is empty, the chunks of the emptiest slabs move into the
    /// others; `told` gets the head and the new id of each.
    pub(super) fn pack(&mut self, mut told: impl FnMut(&Head, u32)) {
        let mut by_kind = [const { Vec::new() }; KINDS];
        for (number, slab) in (0_u32..).zip(&self.all) {
            if let Some(slab) = slab {
                by_kind[slab.kind.number()].push((slab.taken.count_ones(), number));
            }
        }
        for (kind, mut slabs) in by_kind.into_iter().enumerate() {
            slabs.retain(|(used, _)| *used < 64);
            slabs.sort_unstable();
            let goes = emptied(&slabs);
            let slabs: Vec<u32> = slabs.into_iter().map(|(_, number)| number).collect();
            // The fullest are filled first.
            self.roomy[kind] = slabs[goes..].to_vec();
            for number in &slabs[..goes] {
                self.empty(*number, &mut told);
            }
        }
    }

    /// The chunks of a slab move into others of its kind, which have room.
    fn empty(&mut self, number: u32, told: &mut impl FnMut(&Head, u32)) {
        while let Some(slab) = &self.all[number as usize] {
            let id = number << 6 | slab.taken.trailing_zeros();
            let new = self.moved(id, slab.kind);
            if let Some(head) = self.head(new) {
                told(head, new);
            }
        }
    }

    /// All chunks in use, by id.
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

    /// Bytes on the heap.
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
