//! The age records of all frames, in chunks of up to 64 records.
//!
//! A chunk covers an aligned range of frames, and has numbered places for records. A narrow chunk
//! covers 64 frames, so the number of a record's place follows from its frame. A wide chunk covers
//! more frames, and stores for each record the offset of its frame in the range. A chunk whose
//! places are all used is split into two halves. At the end of a scan, chunks with few records are
//! joined.
//!
//! Invariant: a chunk is in the index if and only if it has a record, and its head (`head.rs`)
//! describes it. A huge page has one record, at its first frame; its other frames have none.

use super::age_record::{AgeRecord, Size};
use super::head::ChunkHead;
use super::index::{FRAMES_MAX, Index, NARROW, WIDE, Within};
use super::slabs::{Chunk, Kind, PLACES, Slabs, offset_at};

/// A chunk with at most this many records is joined with its neighbour, if they have at most
/// `JOINED_MAX` records together.
const FEW_RECORDS_MAX: u32 = 30;
const JOINED_MAX: u32 = 60;
/// A chunk is moved to a smaller one if it has at least this many unused places.
const UNUSED_MIN: usize = 16;

/// The age records of all frames.
#[derive(Debug)]
pub(super) struct Frames {
    slabs: Slabs,
    index: Index,
    cursor: Cursor,
    /// Whether records were removed since chunks were last joined.
    is_thinned: bool,
}

/// The chunks that were looked up last.
#[derive(Debug)]
struct Cursor {
    /// The narrow chunk found last: its first frame (`base`), and its id.
    base: u64,
    id: u32,
    /// Id of the wide chunk found last, and the place where the next frame's record is expected:
    /// records of ascending frames mostly have ascending places.
    wide: u32,
    next: u32,
}

const NOWHERE: Cursor = Cursor {
    base: u64::MAX,
    id: 0,
    wide: u32::MAX,
    next: 0,
};

/// A record that is being moved to another chunk.
struct Moving {
    frame: u64,
    word: AgeRecord,
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

    /// Returns the chunk that covers a frame, and the place of the frame's record. The frame has a
    /// record only if the place's bit in `live` is set. `None` if no chunk has a place for the
    /// frame.
    #[inline]
    pub(super) fn find(&mut self, frame: u64) -> Option<(Chunk<'_>, usize)> {
        let (id, at) = match frame & !63 == self.cursor.base {
            true => (self.cursor.id, (frame & 63) as usize),
            false => self.find_far(frame)?,
        };
        Some((self.chunk(id)?, at))
    }

    /// Finds a frame outside the narrow chunk of the last lookup. Returns its chunk's id, then the
    /// place of its record.
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
    fn head(&self, id: u32) -> Option<&ChunkHead> {
        self.slabs.head(id)
    }

    /// Returns the place of a frame's record in this chunk; `None` if the chunk has no place for
    /// it.
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

    /// Returns the chunk for a frame that has no record, and a free place for a record of this
    /// owner. The caller must write the record before any other call, as the place is not reserved.
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

    /// Returns the id of the chunk for a frame that has no record. The chunk has a free place: it
    /// is created, enlarged or split as needed.
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
                self.fill((frame, width), &ChunkHead::EMPTY, &[]);
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

    /// Changes the owner of a frame's record.
    pub(super) fn set_owner(&mut self, frame: u64, owner: u16) {
        if let Some(id) = self.index.get(frame) {
            self.with_room_for(id, owner);
        }
        if let Some((mut chunk, at)) = self.find(frame) {
            chunk.set_owner(at, owner);
        }
    }

    /// Makes sure that a record in this chunk can have this owner; returns the chunk's id, which is
    /// a new one if the chunk had to be moved.
    #[inline]
    fn with_room_for(&mut self, id: u32, owner: u16) -> Option<u32> {
        if self.slabs.chunk(id)?.has_room_for(owner) {
            return Some(id);
        }
        let kind = self.slabs.kind(id)?.with_owners();
        Some(self.move_to(id, kind))
    }

    /// Moves a chunk to a kind that fits this number of records. `mixed`: the records have several
    /// owners.
    fn refit(&mut self, id: u32, records: usize, mixed: bool) {
        if let Some(head) = self.head(id) {
            let kind = Kind::of(head.is_narrow(), records, mixed);
            self.move_to(id, kind);
        }
    }

    /// Moves a chunk to this kind, and updates the index; returns its new id.
    #[cold]
    fn move_to(&mut self, id: u32, kind: Kind) -> u32 {
        let new = self.slabs.moved(id, kind);
        if let Some(head) = self.slabs.head(new) {
            self.index.set(head.base(), head.width(), Some(new));
        }
        self.cursor = NOWHERE;
        new
    }

    /// Returns whether most of the 64 frames before, or of those after, this frame's aligned 64
    /// frames have records. If so, a wide chunk would soon be split here, as frames mostly come in
    /// runs.
    fn continues(&self, frame: u64) -> bool {
        let is_dense = |frame: u64| {
            let head = self.index.get(frame).and_then(|id| self.head(id));
            head.is_some_and(|head| head.is_narrow() && head.live.count_ones() > FEW_RECORDS_MAX)
        };
        let before = (frame & !63).checked_sub(1);
        before.is_some_and(is_dense) || is_dense((frame | 63).min(FRAMES_MAX - 2) + 1)
    }

    /// Makes a chunk with these records for the aligned range of 2^`width` frames that contains
    /// `frame`. Other fields of the chunk's head are copied from `like`. Returns the chunk's id.
    fn fill(&mut self, (frame, width): (u64, u32), like: &ChunkHead, records: &[Moving]) -> u32 {
        let base = frame >> width << width;
        let mut head = like.at(base, width);
        if let Some(first) = records.first() {
            head.sole = first.owner;
            head.mixed = records.iter().any(|record| record.owner != first.owner);
        }
        let kind = Kind::of(width == NARROW, records.len(), head.mixed);
        let id = self.slabs.allocate(kind);
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

    /// Removes a chunk from the index and frees it; returns its head, then its records.
    fn empty(&mut self, id: u32) -> (ChunkHead, Vec<Moving>) {
        let mut records = Vec::with_capacity(PLACES);
        let Some(chunk) = self.slabs.chunk(id) else {
            return (ChunkHead::EMPTY, records);
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

    /// Splits a chunk: each half of its range that has records becomes a chunk of its own.
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

    /// Saves memory at the end of scan `now`: joins chunks with few records, and moves chunks out
    /// of slabs that have few chunks.
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

    /// Moves a chunk to a smaller one if it has many unused places, or if it stores an owner for
    /// each record although all records have the same owner.
    fn fit(&mut self, id: u32) {
        let Some((head, kind)) = self.head(id).zip(self.slabs.kind(id)) else {
            return;
        };
        let records = head.live.count_ones() as usize;
        let smallest = Kind::of(head.is_narrow(), records, head.mixed);
        let is_loose =
            kind.places() >= smallest.places() + UNUSED_MIN || kind.is_mixed() && !head.mixed;
        if records != 0 && is_loose {
            self.move_to(id, smallest);
        }
    }

    /// Joins a chunk that has few records with its neighbour: the only other chunk in the narrowest
    /// aligned range that contains both. Returns the id of the joined chunk; `None` if nothing was
    /// joined.
    fn join_neighbour(&mut self, id: u32, now: u32) -> Option<u32> {
        let head = self.head(id).filter(|head| head.live != 0)?;
        let (base, records) = (head.base(), head.live.count_ones());
        if records > FEW_RECORDS_MAX {
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
                let is_old = head.scan != now;
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

    /// Returns the owner and the record that are stored at exactly this frame number.
    fn record(&self, frame: u64) -> Option<(u16, AgeRecord)> {
        let id = self.index.get(frame)?;
        let at = self.place(id, frame)?;
        self.slabs.record(id, at)
    }

    /// Returns the record stored at exactly this frame number; `None` if there is none.
    pub(super) fn peek(&self, frame: u64) -> Option<AgeRecord> {
        self.record(frame).map(|(_, word)| word)
    }

    /// Returns the owner and the record that cover a frame: the frame's own record, or that of the
    /// huge page which contains it.
    pub(super) fn record_of(&self, frame: u64) -> Option<(u16, AgeRecord)> {
        let sizes = [Size::One, Size::Huge, Size::Giant].into_iter();
        let mut records = sizes.filter_map(|size| {
            let first = frame & !(size.pages() - 1);
            self.record(first).filter(|(_, word)| word.has_size(size))
        });
        records.next()
    }

    /// Returns the chunks that have records within a huge page: their ids, each with a bit mask of
    /// these records.
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

    /// Returns the chunk with this id.
    #[inline]
    pub(super) fn chunk(&mut self, id: u32) -> Option<Chunk<'_>> {
        self.slabs.chunk(id)
    }

    /// Returns a number that is higher than all chunk ids.
    pub(super) fn ids(&self) -> u32 {
        self.slabs.ids()
    }

    /// Frees a chunk whose last record was removed.
    pub(super) fn release(&mut self, id: u32) {
        let Some(head) = self.head(id).copied() else {
            return;
        };
        self.index.set(head.base(), head.width(), None);
        self.cursor = NOWHERE;
        self.slabs.free_chunk(id);
    }

    /// Notes that records were removed, so that [`Frames::tidy`] has work to do.
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

    /// Returns the heap memory of all records and of the index, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slabs.memory_bytes() + self.index.memory_bytes()
    }
}

/// Returns the offset of a frame within its chunk's range: at most 15 bits.
fn offset_of(frame: u64, head: &ChunkHead) -> u16 {
    u16::try_from(frame - head.base()).unwrap_or(u16::MAX)
}

/// Returns a bit mask of the places that store this offset, whether they have a record or not.
fn places_of(offsets: &[u16], offset: u16) -> u64 {
    let mut places = 0;
    // Eight offsets are compared at once, so that the compiler can use vector instructions.
    for (block, some) in (0..).zip(offsets.chunks_exact(8)) {
        if some.iter().fold(false, |any, one| any | (*one == offset)) {
            let found = (0..).zip(some).filter(|(_, one)| **one == offset);
            found.for_each(|(at, _)| places |= 1_u64 << (block * 8 + at));
        }
    }
    places
}
