//! Observes a frame whose record covers as many frames as the page table entry: millions of times
//! in a scan, so this path is the fastest.
//!
//! Invariant: the record, its owner's counts and the chunk's head change together. A frame keeps
//! its owner as long as the owner's last walk saw the frame. If that walk did not, the address
//! space that is now observed to map the frame becomes the owner.

use super::age_record::Size;
use super::{AgeTable, Class, Observation, Owner};

impl AgeTable {
    /// Records a present page of `owner`: `pages` (1, 512 or 262144) frames from `frame` (a frame
    /// number below 2^40) under one accessed bit. Several observations of a frame in one scan are
    /// several mappings of it. Calls with ascending frames are fastest. If a huge page was split,
    /// its frames inherit its record. A huge page of frames that had records of their own is as
    /// young as the youngest of these frames.
    ///
    /// # Panics
    ///
    /// If `owner` was removed, if `pages` is another number, or if a huge page is not aligned.
    #[inline]
    pub fn see(
        &mut self,
        owner: Owner,
        class: Class,
        frame: u64,
        pages: u32,
        observed: Observation,
    ) {
        debug_assert!(self.open, "pages are seen within a scan");
        if self.reader != u32::from(owner.0) {
            self.begin_walk(owner);
        }
        let size = if pages == 1 {
            Some(Size::One)
        } else {
            Size::of(pages)
        };
        self.observe(
            class.0,
            frame,
            size.expect("a leaf has 1, 512 or 512 * 512 pages"),
            observed,
        );
    }

    /// Begins the walk of another address space, `owner`.
    #[cold]
    fn begin_walk(&mut self, owner: Owner) {
        assert!(self.open, "pages are seen within a scan");
        (self.mark, self.is_first) = self.owners.read(owner, self.time.now());
        self.reader = u32::from(owner.0);
        debug_assert!(!self.owners.missed(owner.0, self.mark));
    }

    /// Returns the address space that is being walked.
    pub(super) fn reader(&self) -> u16 {
        debug_assert!(self.reader <= u32::from(u16::MAX), "somebody is reading");
        (self.reader & 0xffff) as u16
    }

    /// Handles one observation of the address space that is being walked. Most observations find a
    /// frame of the walked owner that was not accessed; these are handled here, all others in
    /// functions that are not inlined.
    #[inline]
    pub(super) fn observe(&mut self, class: u8, frame: u64, size: Size, observed: Observation) {
        let (now, reader, mark) = (self.time.now(), self.reader, self.mark);
        if let Some((chunk, at)) = self.frames.find(frame) {
            let bit = 1_u64 << at;
            chunk.head.enter(now);
            let before = chunk.words[at];
            let is_first = chunk.head.live & !chunk.head.seen & bit != 0;
            let is_own = u32::from(chunk.owner(at)) == reader && before.is_plain(class, size);
            if is_first && is_own && !(observed.accessed || observed.hidden) {
                chunk.head.seen |= bit;
                chunk.words[at] = before.into_new_scan().seen_by_owner(class, mark);
                return;
            }
            if chunk.head.live & bit != 0 && before.has_size(size) {
                return self.observe_known(class, frame, observed);
            }
        }
        self.observe_unknown(class, frame, size, observed);
    }

    /// Handles any observation of a frame whose record has the size of the page table entry.
    #[inline(never)]
    fn observe_known(&mut self, class: u8, frame: u64, observed: Observation) {
        let (now, reader) = (self.time.now(), self.reader());
        let Some((chunk, at)) = self.frames.find(frame) else {
            return;
        };
        let bit = 1_u64 << at;
        let (before, owner) = (chunk.words[at], chunk.owner(at));
        debug_assert!(chunk.head.live & bit != 0 && chunk.head.scan == now);
        let is_first = chunk.head.seen & bit == 0;
        chunk.head.seen |= bit;
        let begun = if is_first {
            before.into_new_scan()
        } else {
            before
        };
        let mut word = begun.after(observed, is_first, now);
        if self.is_first && !begun.is_young() && word.is_young() {
            word = word.presumed();
        }
        let is_free = |owner| {
            self.owners.missed(owner, before.mark()) || self.owners.is_postponed(owner, now)
        };
        let takes_over = owner != reader && is_free(owner);
        if takes_over || owner == reader {
            word = word.seen_by_owner(class, self.mark);
        } else {
            let is_early = self.owners.is_to_come(owner, now);
            word = word.seen_by_another(is_early);
            if is_early {
                chunk.head.seen_early_by(reader);
            }
            self.owners.note_sharing(reader, (owner, before.class()));
        }
        chunk.words[at] = word;
        let after = if takes_over { reader } else { owner };
        if takes_over {
            self.frames.set_owner(frame, reader);
        }
        if before.is_shared() {
            let to = (after, word.class());
            self.owners.hand_over((owner, before.class()), to);
        }
        if takes_over || !word.counts_like(before) {
            self.recount(
                (owner, before),
                (after, word),
                begun.reaccessed(word).is_some(),
            );
        }
    }
}
