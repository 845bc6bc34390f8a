//! The records of all frames, in chunks of up to 64.
//!
//! A chunk has an aligned range of frames. A narrow one has 64, and the place of each record is that
//! of its frame; a wide one has more, and keeps where in the range each record's frame is. A chunk
//! that is full is split in two halves; at the end of a round chunks with few records join.
//!
//! Invariant: a chunk is in the index if and only if it has a record, and a head says what is so of its chunk
//! (head.rs). A record for 512 or more frames stands at the first of them, and none of the others has one.

use super::head::Head;
use super::index::{FRAMES_MAX, Index, NARROW, WIDE, Within};
use super::slabs::{Chunk, Kind, PLACES, Slabs, offset_at};
use super::word::{Size, Word};

/// A chunk with so few records joins its neighbour, if they have no more than `JOINED_MAX` together.
const FEW: u32 = 30;
const JOINED_MAX: u32 = 60;
/// A chunk moves where its records have room when it has so many places too many.
const SPARE: usize = 16;

/// All records.
#[derive(Debug)]
pub(super) struct Frames {
    slabs: Slabs,
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

impl Frames {
    pub(super) fn new() -> Frames {
        Frames {
            slabs: Slabs::new(),
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
                let offset = self.slabs.offsets(wide).get(next as usize);
                if offset == Some(&offset_of(frame, head)) {
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

    #[inline]
    fn head(&self, id: u32) -> Option<&Head> {
        self.slabs.head(id)
    }

    /// The place of a frame's record in a chunk that has one.
    fn place(&self, id: u32, frame: u64) -> Option<usize> {
        let head = self.head(id)?;
        let places = if head.is_narrow() {
            1 << (frame & 63)
        } else {
            places_of(self.slabs.offsets(id), offset_of(frame, head))
        };
        let live = places & head.live;
        (live != 0).then(|| live.trailing_zeros() as usize)
    }

    /// The chunk of a frame that has no record, and a free place there for one of this owner's: the caller puts
    /// it there at once.
    pub(super) fn find_or_make(&mut self, frame: u64, owner: u16) -> Option<(Chunk<'_>, usize)> {
        let id = self.id_with_place(frame)?;
        let id = self.with_room_for(id, owner)?;
        let head = self.head(id)?;
        if head.is_narrow() {
            return self.find(frame);
        }
        let (free, offset) = (head.live.trailing_ones() as usize, offset_of(frame, head));
        let mut chunk = self.slabs.chunk(id)?;
        let at = chunk.place(free, offset);
        Some((chunk, at))
    }

    /// The chunk that a frame without a record is to be in; it has a free place for it.
    #[inline]
    fn id_with_place(&mut self, frame: u64) -> Option<u32> {
        if frame & !63 == self.cursor.base {
            return Some(self.cursor.id);
        }
        loop {
            let Some(id) = self.index.get(frame) else {
                let width = match self.continues(frame) {
                    true => NARROW,
                    false => self.index.room(frame),
                };
                self.fill((frame, width), &Head::EMPTY, &[]);
                continue;
            };
            let head = self.head(id)?;
            debug_assert_eq!(self.place(id, frame), None, "a frame has one record");
            if head.is_narrow() {
                return Some(id);
            }
            let records = head.live.count_ones() as usize;
            if records == PLACES {
                self.split(id);
            } else if records == self.slabs.kind(id)?.places() {
                self.refit(id, records + 1, head.mixed);
            } else {
                return Some(id);
            }
        }
    }

    /// A record of a frame is this owner's from now on.
    pub(super) fn give_to(&mut self, frame: u64, owner: u16) {
        if let Some(id) = self.index.get(frame) {
            self.with_room_for(id, owner);
        }
        if let Some((mut chunk, at)) = self.find(frame) {
            chunk.set_owner(at, owner);
        }
    }

    /// The chunk, where a record can have this owner.
    #[inline]
    fn with_room_for(&mut self, id: u32, owner: u16) -> Option<u32> {
        if self.slabs.chunk(id)?.has_room_for(owner) {
            return Some(id);
        }
        let kind = self.slabs.kind(id)?.with_owners();
        Some(self.move_to(id, kind))
    }

    /// A chunk moves where so many records, of several owners or not, have room.
    fn refit(&mut self, id: u32, records: usize, mixed: bool) {
        if let Some(head) = self.head(id) {
            let kind = Kind::of(head.is_narrow(), records, mixed);
            self.move_to(id, kind);
        }
    }

    #[cold]
    fn move_to(&mut self, id: u32, kind: Kind) -> u32 {
        let new = self.slabs.moved(id, kind);
        if let Some(head) = self.slabs.head(new) {
            self.index.set(head.base(), head.width(), Some(new));
        }
        self.cursor = NOWHERE;
        new
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

    /// The range of this width that a frame is in gets a chunk with these records, and else with what is noted
    /// of another: its id.
    fn fill(&mut self, (frame, width): (u64, u32), like: &Head, records: &[Moving]) -> u32 {
        let base = frame >> width << width;
        let mut head = like.at(base, width);
        if let Some(first) = records.first() {
            head.sole = first.owner;
            head.mixed = records.iter().any(|record| record.owner != first.owner);
        }
        let kind = Kind::of(width == NARROW, records.len(), head.mixed);
        let id = self.slabs.take(kind);
        self.index.set(base, width, Some(id));
        self.cursor = NOWHERE;
        let Some(mut chunk) = self.slabs.chunk(id) else {
            return id;
        };
        *chunk.head = head;
        for (number, record) in records.iter().enumerate() {
            let at = chunk.place(number, offset_of(record.frame, &head));
            chunk.head.live |= 1 << at;
            chunk.head.seen |= u64::from(record.seen) << at;
            chunk.words[at] = record.word;
            chunk.set_owner(at, record.owner);
        }
        id
    }

    /// Takes a chunk out of the index and gives it back: its head and its records.
    fn empty(&mut self, id: u32) -> (Head, Vec<Moving>) {
        let mut records = Vec::with_capacity(PLACES);
        let Some(chunk) = self.slabs.chunk(id) else {
            return (Head::EMPTY, records);
        };
        let head = *chunk.head;
        for at in (0..PLACES).filter(|at| head.live >> at & 1 == 1) {
            records.push(Moving {
                frame: head.base() + u64::from(chunk.offset(at)),
                word: chunk.words[at],
                owner: chunk.owner(at),
                seen: head.seen >> at & 1 == 1,
            });
        }
        chunk.head.live = 0;
        self.release(id);
        (head, records)
    }

    /// Each half of a chunk's range gets a chunk, if it has a record.
    fn split(&mut self, id: u32) {
        let (head, records) = self.empty(id);
        let (width, middle) = (head.width() - 1, head.base() + (1 << (head.width() - 1)));
        let (upper, lower): (Vec<Moving>, Vec<Moving>) = records
            .into_iter()
            .partition(|record| record.frame >= middle);
        for half in [lower, upper].iter().filter(|half| !half.is_empty()) {
            self.fill((half[0].frame, width), &head, half);
        }
    }

    /// At the end of round `now`: chunks with few records join, and chunks leave slabs that have few.
    /// What is noted of a chunk is of this round.
    pub(super) fn tidy(&mut self, now: u32) {
        if !std::mem::take(&mut self.is_thinned) {
            return;
        }
        for id in 0..self.ids() {
            let mut at = id;
            while let Some(joined) = self.join_neighbour(at, now) {
                at = joined;
            }
            self.fit(at);
        }
        let index = &mut self.index;
        self.slabs
            .pack(|head, new| index.set(head.base(), head.width(), Some(new)));
        self.cursor = NOWHERE;
    }

    /// A wide chunk with many places too many, or one that keeps owners of which all are one, moves where it has
    /// less room.
    fn fit(&mut self, id: u32) {
        let Some((head, kind)) = self.head(id).zip(self.slabs.kind(id)) else {
            return;
        };
        let records = head.live.count_ones() as usize;
        let least = Kind::of(head.is_narrow(), records, head.mixed);
        let is_loose = kind.places() >= least.places() + SPARE || kind.is_mixed() && !head.mixed;
        if records != 0 && is_loose {
            self.move_to(id, least);
        }
    }

    /// A chunk with few records takes those of the only other one of the narrowest range that has
    /// both: the id of what they are then; none if nothing was done.
    fn join_neighbour(&mut self, id: u32, now: u32) -> Option<u32> {
        let head = self.head(id).filter(|head| head.live != 0)?;
        let (base, records) = (head.base(), head.live.count_ones());
        if records > FEW {
            return None;
        }
        for width in head.width()..WIDE {
            let other = match self.index.within(base ^ 1 << width, width) {
                Within::Nothing => continue,
                Within::Several => return None,
                Within::One(other) => other,
            };
            let others = self.head(other).map_or(0, |head| head.live.count_ones());
            if records + others > JOINED_MAX {
                return None;
            }
            let (mut one, mut all) = (self.empty(id), self.empty(other));
            for (head, records) in [&mut one, &mut all] {
                let is_old = head.round != now;
                records.iter_mut().for_each(|record| record.seen &= !is_old);
                head.enter(now);
            }
            let (mut joined, other) = (one.0, all.0);
            joined.note_early(other.early);
            joined.stale |= other.stale;
            all.1.append(&mut one.1);
            return Some(self.fill((base, width + 1), &joined, &all.1));
        }
        None
    }

    fn record(&self, frame: u64) -> Option<(u16, Word)> {
        let id = self.index.get(frame)?;
        let at = self.place(id, frame)?;
        self.slabs.record(id, at)
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
            let offsets = self.slabs.offsets(id);
            let is_within =
                |at: &usize| frames.contains(&(head.base() + u64::from(offset_at(offsets, *at))));
            let places = (0..PLACES)
                .filter(|at| head.live >> at & 1 == 1)
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
        self.slabs.chunk(id)
    }

    /// Ids of chunks go up to here.
    pub(super) fn ids(&self) -> u32 {
        self.slabs.ids()
    }

    /// Gives back a chunk whose last record has gone.
    pub(super) fn release(&mut self, id: u32) {
        let Some(head) = self.head(id).copied() else {
            return;
        };
        self.index.set(head.base(), head.width(), None);
        self.cursor = NOWHERE;
        self.slabs.give_back(id);
    }

    /// Some records have gone.
    pub(super) const fn note_thinned(&mut self) {
        self.is_thinned = true;
    }

    /// Asserts the invariant of the module.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for id in self.slabs.taken() {
            let head = self.head(id).expect("it is there");
            let kind = self.slabs.kind(id).expect("it is there");
            assert_eq!(head.is_narrow(), matches!(kind, Kind::Narrow { .. }));
            assert!(kind.is_mixed() || !head.mixed, "owners have room");
            assert_ne!(head.live, 0, "a chunk has a record");
            assert_eq!(head.seen & !head.live, 0, "what was seen is live");
            for place in (0..PLACES).filter(|place| head.live >> place & 1 == 1) {
                let offset = u64::from(offset_at(self.slabs.offsets(id), place));
                let frame = head.base() + offset;
                assert!(offset < 1 << head.width());
                assert_eq!(self.index.get(frame), Some(id));
                assert_eq!(self.place(id, frame), Some(place), "a frame has one record");
                let owner = self.slabs.record(id, place).expect("it is live").0;
                assert!(head.mixed || owner == head.sole);
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slabs.memory_bytes() + self.index.memory_bytes()
    }
}

/// How far into its chunk's range a frame is: 15 bits.
fn offset_of(frame: u64, head: &Head) -> u16 {
    u16::try_from(frame - head.base()).unwrap_or(u16::MAX)
}

/// The places where an offset stands, live or not, one bit each.
fn places_of(offsets: &[u16], offset: u16) -> u64 {
    let mut places = 0;
    // Eight are compared at once.
    for (block, some) in (0..).zip(offsets.chunks_exact(8)) {
        if some.iter().fold(false, |any, one| any | (*one == offset)) {
            let found = (0..).zip(some).filter(|(_, one)| **one == offset);
            found.for_each(|(at, _)| places |= 1_u64 << (block * 8 + at));
        }
    }
    places
}
