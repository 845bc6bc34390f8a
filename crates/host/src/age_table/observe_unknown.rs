//! Observes a frame that has no record of the page table entry's size: the frame is fresh, or a
//! huge page was split or joined since the last observation.
//!
//! Invariant: exactly one record covers a frame, before and after. If a record is split, each part
//! gets the same content. A joined record belongs to the address space that maps the huge page. The
//! exception: if this scan has already seen a part, one address space maps the parts and another
//! the whole huge page; then no record is joined, and the observation applies to each part.

use std::collections::BTreeSet;

use super::age_record::{AgeRecord, Size};
use super::reaccesses::Found;
use super::{AgeTable, Observation, place_of};

impl AgeTable {
    /// Handles one observation of a frame without a record of the page table entry's size.
    #[inline(never)]
    pub(super) fn observe_unknown(
        &mut self,
        class: u8,
        frame: u64,
        size: Size,
        observed: Observation,
    ) {
        let now = self.time.now();
        if let Some((head, whole)) = self.covering(frame, size) {
            self.split(head, whole);
            // A third-level leaf is split twice before one of its pages has a record.
            return self.observe(class, frame, size, observed);
        }
        let fresh = AgeRecord::fresh(now, size);
        if size == Size::One {
            return self.place(class, frame, fresh, observed);
        }
        assert!(
            frame.is_multiple_of(size.pages()),
            "huge leaves are aligned"
        );
        let chunks = self.frames.within(frame, size);
        if chunks.iter().any(|&records| self.was_seen(records)) {
            let part = size.part();
            for number in 0..512 {
                self.observe(class, frame + number * part.pages(), part, observed);
            }
            return;
        }
        let joined = self.join(class, &chunks, size);
        self.place(class, frame, joined.unwrap_or(fresh), observed);
    }

    /// Returns the first frame and the size of the larger record that covers a frame; `None` if
    /// there is no such record.
    fn covering(&self, frame: u64, size: Size) -> Option<(u64, Size)> {
        if self.large == 0 {
            return None;
        }
        let larger = [Size::Huge, Size::Giant]
            .into_iter()
            .filter(|larger| *larger > size);
        let mut heads = larger.map(|larger| (frame & !(larger.pages() - 1), larger));
        heads.find(|(head, larger)| {
            self.frames
                .peek(*head)
                .is_some_and(|word| word.size() == *larger)
        })
    }

    /// Returns whether this scan saw any of these records of a chunk. `records`: a bit mask of
    /// places.
    fn was_seen(&mut self, (id, records): (u32, u64)) -> bool {
        let now = self.time.now();
        self.frames
            .chunk(id)
            .is_some_and(|chunk| chunk.head.seen_in(now) & records != 0)
    }

    /// Makes a new record, owned by the address space that is being walked. `before`: the record of
    /// the frame as of before this scan.
    fn place(&mut self, class: u8, frame: u64, before: AgeRecord, observed: Observation) {
        let now = self.time.now();
        let begun = before.into_new_scan();
        let mut word = begun
            .after(observed, true, now)
            .seen_by_owner(class, self.mark);
        // A fresh huge page (or one with a presumed age) counts as presumed, not as accessed: the
        // kernel may have made it of small pages, of which at most one was accessed.
        let is_whole = word.size() != Size::One && before.is_presumed();
        if self.is_first || is_whole {
            word = word.presumed();
        }
        let (owner, pages) = (self.reader(), word.size().pages());
        self.put(frame, owner, word, true);
        self.page_counts
            .at((owner, class))
            .add(place_of(&self.time, word), pages);
        self.pages += pages;
        if let Some(scan) = begun.reaccessed(word) {
            let found = Found::new(pages, begun.is_presumed(), word.is_presumed());
            self.count_again((owner, class), scan, found);
        }
        debug_assert_eq!(self.frames.peek(frame), Some(word));
    }

    /// Writes a record for a frame that has none. The caller updates the page counts.
    fn put(&mut self, frame: u64, owner: u16, word: AgeRecord, seen: bool) {
        let now = self.time.now();
        let Some((mut chunk, at)) = self.frames.find_or_make(frame, owner) else {
            return;
        };
        let bit = 1_u64 << at;
        assert_eq!(chunk.head.live & bit, 0, "a frame has one record");
        chunk.head.enter(now);
        chunk.set_owner(at, owner);
        chunk.head.live |= bit;
        if seen {
            chunk.head.seen |= bit;
        }
        chunk.words[at] = word;
        self.large += u64::from(word.size() != Size::One);
    }

    /// Replaces the record of a huge page by a record for each of its parts, with the same content.
    #[cold]
    fn split(&mut self, head: u64, size: Size) {
        let now = self.time.now();
        let Some((chunk, at)) = self.frames.find(head) else {
            return;
        };
        let bit = 1_u64 << at;
        let (word, owner) = (chunk.words[at], chunk.owner(at));
        let is_live = chunk.head.live & bit != 0;
        assert!(is_live && word.size() == size, "what is split is there");
        let seen = chunk.head.seen_in(now) & bit != 0;
        let early = chunk.head.early_in(now);
        let stale = chunk.head.stale;
        chunk.head.live &= !bit;
        chunk.head.seen &= !bit;
        self.large -= 1;
        let part = size.part();
        for at in (0..512).map(|number| head + number * part.pages()) {
            self.put(at, owner, word.with_size(part), seen);
            // Flags of the huge page's chunk apply to each part.
            if let Some((chunk, _)) = self.frames.find(at) {
                chunk.head.note_early(early);
                chunk.head.stale |= stale;
            }
        }
        debug_assert_eq!(part.pages() * 512, size.pages(), "no frame comes or goes");
    }

    /// Removes these records, which lie within one huge page, and returns one record made of them.
    /// `None` if a part of the huge page had no record and no part may be shared: the page is
    /// fresh.
    fn join(&mut self, class: u8, chunks: &[(u32, u64)], size: Size) -> Option<AgeRecord> {
        let (mut joined, mut pages): (Option<AgeRecord>, u64) = (None, 0);
        let (reader, mut before) = (self.reader(), BTreeSet::new());
        for &(id, gone) in chunks {
            self.drop_records(id, gone, |owner, word| {
                joined = Some(joined.map_or(word, |other: AgeRecord| other.joined(word)));
                before.insert(((owner, word.class()), word.is_shared()));
                pages += word.size().pages();
            });
        }
        assert!(pages <= size.pages(), "each frame is under one record");
        let now = self.time.now();
        let mut is_shared = joined.is_some_and(AgeRecord::is_shared);
        for (from, was_shared) in before {
            // A former owner that this scan has not walked may still map its part.
            if from.0 != reader && self.owners.make_pending(from.0, now) {
                is_shared = true;
            }
            if was_shared {
                self.owners.hand_over(from, (reader, class));
            }
        }
        let whole = joined.filter(|_| pages == size.pages());
        let fresh = is_shared.then(|| AgeRecord::fresh(now, size));
        let all = whole.map(|word| word.with_size(size)).or(fresh)?;
        Some(if is_shared {
            all.seen_by_another(false)
        } else {
            all
        })
    }

    /// Removes the records of a chunk in the bit mask `gone`, and passes each to `reported`.
    pub(super) fn drop_records(
        &mut self,
        id: u32,
        gone: u64,
        mut reported: impl FnMut(u16, AgeRecord),
    ) {
        self.flush_run();
        let Some(chunk) = self.frames.chunk(id) else {
            return;
        };
        assert_eq!(gone & !chunk.head.live, 0, "only records go");
        chunk.head.live &= !gone;
        chunk.head.seen &= !gone;
        let mut remaining = gone;
        while remaining != 0 {
            let at = remaining.trailing_zeros() as usize;
            remaining &= remaining - 1;
            let (word, owner) = (chunk.words[at], chunk.owner(at));
            let pages = word.size().pages();
            let place = place_of(&self.time, word);
            self.page_counts
                .at((owner, word.class()))
                .subtract(place, pages);
            self.pages -= pages;
            self.large -= u64::from(word.size() != Size::One);
            reported(owner, word);
        }
        let is_empty = chunk.head.live == 0;
        if is_empty && gone != 0 {
            self.frames.release(id);
        }
        self.frames.note_thinned();
    }
}
