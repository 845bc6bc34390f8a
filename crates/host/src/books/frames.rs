//! The records of all frames, in chunks of up to 64, in slabs of 64 chunks.
//!
//! A chunk has an aligned range of frames. A narrow one has 64, and the place of each record is that
//! of its frame; a wide one has more, and keeps where in the range each record's frame is. A chunk
//! that is full is split in two halves; at the end of a round chunks with few records join.
//!
//! Invariant: a chunk is in the index if and only if it has a record; `seen` is a subset of `live`
//! and of round `round` only; if a chunk is not `mixed`, all its records belong to `sole`. A record
//! for 512 or more frames stands at the first of them, and none of the others has one.

use super::index::{FRAMES_MAX, Index, NARROW, WIDE, Within};
use super::positions::{AllPositions, Positions, places_of};
use super::word::{Size, Word};

/// A chunk with so few records joins its neighbour, if they have no more than `JOINED_MAX` together.
const FEW: u32 = 30;
const JOINED_MAX: u32 = 60;

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
    /// Its first frame, and from bit 40 on the width of its range.
    place: u64,
    pub(super) round: u32,
    /// Of a wide one, the number of its positions.
    positions: u32,
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
    place: 0,
    round: NEVER,
    positions: 0,
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
    /// Of wide chunks.
    positions: AllPositions,
    index: Index,
    cursor: Cursor,
    /// Records have gone since chunks were joined last.
    is_thinned: bool,
}

/// The chunks that were looked up last.
#[derive(Debug)]
struct Cursor {
    /// A narrow one: its first frame, and its id.
    base: u64,
    id: u32,
    /// A wide one, and the place where its next record is if they were made in order.
    wide: u32,
    next: u32,
}

const NOWHERE: Cursor = Cursor {
    base: u64::MAX,
    id: 0,
    wide: u32::MAX,
    next: 0,
};

/// A record on its way to another chunk.
struct Moving {
    frame: u64,
    word: Word,
    owner: u16,
    seen: bool,
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
    /// The width of its range: so many frames, as a power of two.
    const fn width(&self) -> u32 {
        (self.place >> 40) as u32
    }

    /// The first frame of its range.
    const fn base(&self) -> u64 {
        self.place & ((1 << 40) - 1)
    }

    const fn is_narrow(&self) -> bool {
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

impl Frames {
    pub(super) fn new() -> Frames {
        Frames {
            slabs: Vec::new(),
            roomy: Vec::new(),
            positions: AllPositions::default(),
            index: Index::default(),
            cursor: NOWHERE,
            is_thinned: false,
        }
    }

    /// The chunk of a frame and the place of its record there, which may be another's or none's if the
    /// place is not live; none if the chunk has no record of it.
    #[inline]
    pub(super) fn find(&mut self, frame: u64) -> Option<(Chunk<'_>, usize)> {
        let (id, at) = match frame & !63 == self.cursor.base {
            true => (self.cursor.id, (frame & 63) as usize),
            false => self.find_far(frame)?,
        };
        Some((self.chunk(id)?, at))
    }

    /// The same of a frame that is not in the narrow chunk of the last one: the id of its chunk.
    #[cold]
    fn find_far(&mut self, frame: u64) -> Option<(u32, usize)> {
        let (wide, next) = (self.cursor.wide, self.cursor.next & 63);
        if let Some(head) = self.head(wide) {
            let is_its = frame >> head.width() == head.base() >> head.width();
            if is_its && head.live >> next & 1 == 1 {
                let positions = self.positions.get(head.positions)?;
                if positions[next as usize] == offset_of(frame, head) {
                    self.cursor.next += 1;
                    return Some((wide, next as usize));
                }
            }
        }
        let id = self.index.get(frame)?;
        if self.head(id)?.is_narrow() {
            self.cursor.base = frame & !63;
            self.cursor.id = id;
            return Some((id, (frame & 63) as usize));
        }
        let at = self.place(id, frame)?;
        self.cursor.wide = id;
        self.cursor.next = u32::try_from(at + 1).unwrap_or(0);
        Some((id, at))
    }

    fn head(&self, id: u32) -> Option<&Head> {
        let slab = self.slabs.get(id as usize >> 6)?.as_ref()?;
        Some(&slab.heads[(id & 63) as usize])
    }

    /// The place of a frame's record in a chunk that has one.
    fn place(&self, id: u32, frame: u64) -> Option<usize> {
        let head = self.head(id)?;
        let places = if head.is_narrow() {
            1 << (frame & 63)
        } else {
            let positions = self.positions.get(head.positions)?;
            places_of(positions, offset_of(frame, head))
        };
        let live = places & head.live;
        (live != 0).then(|| live.trailing_zeros() as usize)
    }

    /// The chunk of a frame that has no record, and a free place there for it: the caller puts one
    /// there at once.
    pub(super) fn find_or_make(&mut self, frame: u64) -> Option<(Chunk<'_>, usize)> {
        if frame & !63 == self.cursor.base {
            return self.find(frame);
        }
        self.make(frame)
    }

    /// The same of a frame that is not in the chunk of the last one.
    #[inline(never)]
    fn make(&mut self, frame: u64) -> Option<(Chunk<'_>, usize)> {
        loop {
            let Some(id) = self.index.get(frame) else {
                let width = match self.continues(frame) {
                    true => NARROW,
                    false => self.index.room(frame),
                };
                let id = self.take_chunk();
                self.fill(id, (frame, width), &EMPTY, &[]);
                continue;
            };
            let head = self.head(id)?;
            debug_assert_eq!(self.place(id, frame), None, "a frame has one record");
            if head.is_narrow() {
                return self.find(frame);
            }
            if head.live == u64::MAX {
                self.split(id);
                continue;
            }
            let (at, offset) = (head.live.trailing_ones() as usize, offset_of(frame, head));
            let number = head.positions;
            self.positions.get_mut(number)?[at] = offset;
            return Some((self.chunk(id)?, at));
        }
    }

    /// Whether most of the 64 frames before or after those of this one have records: frames are mostly in
    /// runs, and a chunk that is to be split soon is made in vain.
    fn continues(&self, frame: u64) -> bool {
        let is_dense = |frame: u64| {
            let head = self.index.get(frame).and_then(|id| self.head(id));
            head.is_some_and(|head| head.is_narrow() && head.live.count_ones() > FEW)
        };
        let before = (frame & !63).checked_sub(1);
        before.is_some_and(is_dense) || is_dense((frame | 63).min(FRAMES_MAX - 2) + 1)
    }

    /// The range of this width that a frame is in is this chunk's from now on, with these records and
    /// else with what is noted of another.
    fn fill(&mut self, id: u32, (frame, width): (u64, u32), like: &Head, records: &[Moving]) {
        let base = frame >> width << width;
        let mut head = Head {
            live: 0,
            seen: 0,
            place: base | u64::from(width) << 40,
            ..*like
        };
        self.index.set(base, width, Some(id));
        self.cursor = NOWHERE;
        let mut positions = (width > NARROW).then(|| Box::new([0_u16; 64]));
        let Some(chunk) = self.chunk(id) else { return };
        for (number, record) in records.iter().enumerate() {
            let at = match &mut positions {
                None => (record.frame & 63) as usize,
                Some(positions) => {
                    positions[number] = offset_of(record.frame, &head);
                    number
                }
            };
            head.live |= 1 << at;
            head.seen |= u64::from(record.seen) << at;
            (chunk.words[at], chunk.owners[at]) = (record.word, record.owner);
        }
        *chunk.head = head;
        if let Some(positions) = positions {
            let number = self.positions.keep(positions);
            if let Some(chunk) = self.chunk(id) {
                chunk.head.positions = number;
            }
        }
    }

    /// Takes a chunk out of the index, and gives its head and its records.
    fn empty(&mut self, id: u32) -> (Head, Vec<Moving>) {
        let Some(head) = self.head(id).copied() else {
            return (EMPTY, Vec::new());
        };
        self.index.set(head.base(), head.width(), None);
        self.cursor = NOWHERE;
        let positions = self.take_positions(&head);
        let mut records = Vec::with_capacity(64);
        if let Some(chunk) = self.chunk(id) {
            for at in (0..64).filter(|at| head.live >> at & 1 == 1) {
                let offset = positions
                    .as_ref()
                    .map_or(at as u64, |all| u64::from(all[at]));
                records.push(Moving {
                    frame: head.base() + offset,
                    word: chunk.words[at],
                    owner: chunk.owners[at],
                    seen: head.seen >> at & 1 == 1,
                });
            }
            chunk.head.live = 0;
        }
        (head, records)
    }

    fn take_positions(&mut self, head: &Head) -> Option<Box<Positions>> {
        if head.is_narrow() {
            return None;
        }
        self.positions.take(head.positions)
    }

    /// Each half of a chunk's range gets a chunk, if it has a record.
    fn split(&mut self, id: u32) {
        let (head, records) = self.empty(id);
        let (width, middle) = (head.width() - 1, head.base() + (1 << (head.width() - 1)));
        let (upper, lower): (Vec<Moving>, Vec<Moving>) = records
            .into_iter()
            .partition(|record| record.frame >= middle);
        let mut free = Some(id);
        for half in [lower, upper].iter().filter(|half| !half.is_empty()) {
            let id = free.take().unwrap_or_else(|| self.take_chunk());
            self.fill(id, (half[0].frame, width), &head, half);
        }
    }

    /// At the end of round `now`: chunks with few records join, and chunks leave slabs that have few.
    /// What is noted of a chunk is of this round.
    pub(super) fn tidy(&mut self, now: u32) {
        if !std::mem::take(&mut self.is_thinned) {
            return;
        }
        for id in 0..self.ids() {
            while self.join_neighbour(id, now) {}
        }
        self.pack();
    }

    /// A chunk with few records takes those of the only other one of the narrowest range that has
    /// both; false if nothing was done.
    fn join_neighbour(&mut self, id: u32, now: u32) -> bool {
        let Some(head) = self.head(id).filter(|head| head.live != 0) else {
            return false;
        };
        let (base, records) = (head.base(), head.live.count_ones());
        if records > FEW {
            return false;
        }
        for width in head.width()..WIDE {
            let other = match self.index.within(base ^ 1 << width, width) {
                Within::Nothing => continue,
                Within::Several => return false,
                Within::One(other) => other,
            };
            let others = self.head(other).map_or(0, |head| head.live.count_ones());
            if records + others > JOINED_MAX {
                return false;
            }
            let (mut one, mut all) = (self.empty(id), self.empty(other));
            for (head, records) in [&mut one, &mut all] {
                let is_old = head.round != now;
                records.iter_mut().for_each(|record| record.seen &= !is_old);
                head.enter(now);
            }
            self.give_back(other);
            let (mut joined, other) = (one.0, all.0);
            joined.note_early(other.early);
            joined.stale |= other.stale;
            joined.mixed |= other.mixed || other.sole != joined.sole;
            all.1.append(&mut one.1);
            self.fill(id, (base, width + 1), &joined, &all.1);
            return true;
        }
        false
    }

    /// Where more than an eighth of the slabs' places is empty, the chunks of the emptiest move into
    /// the others.
    fn pack(&mut self) {
        let used =
            |slab: &Option<Box<Slab>>| slab.as_ref().map_or(64, |slab| slab.taken.count_ones());
        let of = |frames: &Frames, slab: u32| used(&frames.slabs[slab as usize]);
        let is_there = |slab: &u32| self.slabs[*slab as usize].is_some();
        let mut order: Vec<u32> = self.roomy.iter().copied().filter(is_there).collect();
        let free: u32 = order.iter().map(|slab| 64 - of(self, *slab)).sum();
        let slabs = self.slabs.iter().flatten().count();
        if free as usize <= slabs * 8 + 64 {
            return;
        }
        order.sort_unstable_by_key(|slab| of(self, *slab));
        let (mut from, mut to) = (0, order.len() - 1);
        while from < to {
            if of(self, order[to]) == 64 {
                to -= 1;
                continue;
            }
            let taken = self.slabs[order[from] as usize]
                .as_ref()
                .map_or(0, |slab| slab.taken);
            if taken == 0 {
                from += 1;
                continue;
            }
            self.relocate(order[from] << 6 | taken.trailing_zeros(), order[to]);
            if taken.is_power_of_two() {
                self.slabs[order[from] as usize] = None;
                from += 1;
            }
        }
        self.roomy.clear();
        for (number, slab) in (0..).zip(&self.slabs) {
            if slab.as_ref().is_none_or(|slab| slab.taken != u64::MAX) {
                self.roomy.push(number);
            }
        }
        // Those that exist are filled first.
        let slabs = &self.slabs;
        self.roomy
            .sort_by_key(|slab| slabs[*slab as usize].is_some());
    }

    /// A chunk moves to another slab, which has a free place.
    fn relocate(&mut self, id: u32, slab: u32) {
        let Some(chunk) = self.chunk(id) else { return };
        let (head, words, owners) = (*chunk.head, *chunk.words, *chunk.owners);
        chunk.head.live = 0;
        if let Some(from) = &mut self.slabs[id as usize >> 6] {
            from.taken &= !(1 << (id & 63));
        }
        let Some(to) = &mut self.slabs[slab as usize] else {
            return;
        };
        let at = to.taken.trailing_ones();
        to.taken |= 1 << at;
        let new = slab << 6 | at;
        if let Some(chunk) = self.chunk(new) {
            (*chunk.head, *chunk.words, *chunk.owners) = (head, words, owners);
        }
        self.index.set(head.base(), head.width(), Some(new));
        self.cursor = NOWHERE;
    }

    fn record(&self, frame: u64) -> Option<(u16, Word)> {
        let id = self.index.get(frame)?;
        let at = self.place(id, frame)?;
        let slab = self.slabs.get(id as usize >> 6)?.as_ref()?;
        let chunk = (id & 63) as usize;
        Some((slab.owners[chunk][at], slab.words[chunk][at]))
    }

    /// The record of a frame.
    pub(super) fn peek(&self, frame: u64) -> Option<Word> {
        self.record(frame).map(|(_, word)| word)
    }

    /// The owner and the record that a frame is under, be it a page's or a huge leaf's.
    pub(super) fn record_of(&self, frame: u64) -> Option<(u16, Word)> {
        let sizes = [Size::One, Size::Huge, Size::Giant].into_iter();
        let mut records = sizes.filter_map(|size| {
            let first = frame & !(size.pages() - 1);
            self.record(first).filter(|(_, word)| word.has_size(size))
        });
        records.next()
    }

    /// The chunks with records among the frames of a huge leaf, by id, and which records these are.
    pub(super) fn within(&self, frame: u64, size: Size) -> Vec<(u32, u64)> {
        debug_assert!(
            frame.is_multiple_of(size.pages()),
            "huge leaves are aligned"
        );
        let (mut all, mut at, end) = (Vec::new(), frame, frame + size.pages());
        while at < end {
            let Some((id, head)) = self.index.get(at).and_then(|id| Some((id, self.head(id)?)))
            else {
                at = (at | 63) + 1;
                continue;
            };
            let frames = frame..end;
            let positions = match head.is_narrow() {
                true => None,
                false => self.positions.get(head.positions),
            };
            let is_within = |at: &usize| {
                let offset = positions.map_or(*at as u64, |all| u64::from(all[*at]));
                frames.contains(&(head.base() + offset))
            };
            let places = (0..64)
                .filter(is_within)
                .fold(0_u64, |all, at| all | 1 << at);
            if places & head.live != 0 {
                all.push((id, places & head.live));
            }
            at = head.base() + (1 << head.width());
        }
        all
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

    /// Gives back a chunk whose last record has gone.
    pub(super) fn release(&mut self, id: u32) {
        let Some(head) = self.head(id).copied() else {
            return;
        };
        self.index.set(head.base(), head.width(), None);
        self.cursor = NOWHERE;
        self.take_positions(&head);
        self.give_back(id);
    }

    /// Some records have gone.
    pub(super) const fn note_thinned(&mut self) {
        self.is_thinned = true;
    }

    /// An empty chunk is free; a slab without chunks is freed.
    fn give_back(&mut self, id: u32) {
        let (slab, bit) = (id >> 6, 1_u64 << (id & 63));
        let Some(place) = self.slabs[slab as usize].as_mut() else {
            return;
        };
        let head = &place.heads[(id & 63) as usize];
        assert!(
            place.taken & bit != 0 && head.live == 0,
            "only an empty chunk is given back"
        );
        if place.taken == u64::MAX {
            self.roomy.push(slab);
        }
        place.taken &= !bit;
        if place.taken == 0 {
            self.slabs[slab as usize] = None;
        }
        debug_assert!(!self.roomy.is_empty(), "there is room where a chunk was");
    }

    /// Asserts the invariant of the module.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (number, slab) in (0_u32..).zip(&self.slabs) {
            let Some(slab) = slab else { continue };
            assert_ne!(slab.taken, 0, "a slab without chunks is freed");
            for at in (0..64).filter(|at| slab.taken >> at & 1 == 1) {
                let (id, head) = (number << 6 | at, &slab.heads[at as usize]);
                assert_ne!(head.live, 0, "a chunk has a record");
                assert_eq!(head.seen & !head.live, 0, "what was seen is live");
                for place in (0..64).filter(|place| head.live >> place & 1 == 1) {
                    let offset = match head.is_narrow() {
                        true => place as u64,
                        false => {
                            let positions = self.positions.get(head.positions);
                            u64::from(positions.expect("it is wide")[place])
                        }
                    };
                    let frame = head.base() + offset;
                    assert!(offset < 1 << head.width());
                    assert_eq!(self.index.get(frame), Some(id));
                    assert_eq!(self.place(id, frame), Some(place), "a frame has one record");
                    let owner = slab.owners[at as usize][place];
                    assert!(head.mixed || owner == head.sole);
                }
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let slabs = self.slabs.iter().flatten().count() * size_of::<Slab>();
        let pointers = self.slabs.capacity() * size_of::<Option<Box<Slab>>>();
        let roomy = self.roomy.capacity() * size_of::<u32>();
        let wide = self.positions.memory_bytes();
        slabs + pointers + roomy + wide + self.index.memory_bytes()
    }
}

/// How far into its chunk's range a frame is: 15 bits.
fn offset_of(frame: u64, head: &Head) -> u16 {
    u16::try_from(frame - head.base()).unwrap_or(u16::MAX)
}
