//! What is known about one frame, in 32 bits, and how one look changes it.
//!
//! Invariant: within a round Young wins over Unknown wins over Old, in whatever order looks arrive;
//! nothing here ever makes a frame older than the looks allow. `last` means nothing while the frame's
//! age is unknown, except that it is no later than this round.

use super::Observation;

/// The highest round that a word can hold; the timeline renumbers its rounds before it is passed.
pub(super) const ROUND_MAX: u32 = 0xffff;

const LAST: u32 = ROUND_MAX;
const CLASS_SHIFT: u32 = 16;
const CLASS: u32 = 0xf << CLASS_SHIFT;
const MARK_SHIFT: u32 = 20;
const MARK: u32 = 3 << MARK_SHIFT;
const SIZE_SHIFT: u32 = 22;
const SIZE: u32 = 3 << SIZE_SHIFT;
const UNKNOWN: u32 = 1 << 24;
/// Of an unknown age: it is unknown because accesses may be hidden, not (only) because a bit was left set. Of a known
/// one: `last` is the youngest that it can be, and no access was seen since the page became known.
const HIDDEN: u32 = 1 << 25;
/// The accessed bit of some mapping was set in the round that saw this frame last.
const BIT: u32 = 1 << 26;
/// `BIT` and `UNKNOWN` as they were before this round.
const BIT_BEFORE: u32 = 1 << 27;
const UNKNOWN_BEFORE: u32 = 1 << 28;
/// Some mapping was young in this round.
const YOUNG: u32 = 1 << 29;
/// Somebody but its owner has seen this frame.
const SHARED: u32 = 1 << 30;
/// Of what nobody saw in the last round: who may map it slept, and is read in this one. Of what was seen in this round: `SHARED` is new, by one
/// look of somebody who was read before its owner.
const WAITS: u32 = 1 << 31;

/// How many frames one record stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Size {
    /// One frame.
    One,
    /// A leaf of the second level: 512 frames.
    Huge,
    /// A leaf of the third level: 262144 frames.
    Giant,
}

impl Size {
    /// The size of a leaf of so many pages; none if tables have no such leaf.
    pub(super) const fn of(pages: u32) -> Option<Size> {
        match pages {
            1 => Some(Size::One),
            512 => Some(Size::Huge),
            262_144 => Some(Size::Giant),
            _ => None,
        }
    }

    /// Frames.
    pub(super) const fn pages(self) -> u64 {
        match self {
            Size::One => 1,
            Size::Huge => 512,
            Size::Giant => 262_144,
        }
    }

    /// The next smaller size: what a record of this one is split into 512 of.
    pub(super) const fn part(self) -> Size {
        match self {
            Size::One | Size::Huge => Size::One,
            Size::Giant => Size::Huge,
        }
    }
}

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(u32);

impl Word {
    /// A frame that was not known before `now`: its last access is now, the youngest it can be.
    pub(super) fn fresh(now: u32, size: Size) -> Word {
        debug_assert!(now <= ROUND_MAX, "renumbered too late");
        Word(now | HIDDEN).with_size(size)
    }

    pub(super) const fn last(self) -> u32 {
        self.0 & LAST
    }

    pub(super) const fn class(self) -> u8 {
        ((self.0 & CLASS) >> CLASS_SHIFT) as u8
    }

    /// The owner's reading that saw this frame last (its two lowest bits).
    pub(super) const fn mark(self) -> u8 {
        ((self.0 & MARK) >> MARK_SHIFT) as u8
    }

    pub(super) const fn size(self) -> Size {
        match (self.0 & SIZE) >> SIZE_SHIFT {
            0 => Size::One,
            1 => Size::Huge,
            _ => Size::Giant,
        }
    }

    /// Whether it has this size: `size() ==`, but for the hot path.
    pub(super) const fn has_size(self, size: Size) -> bool {
        self.0 & SIZE == (size as u32) << SIZE_SHIFT
    }

    /// Whether it has this size and class, and a known age: a look that finds it old says nothing new.
    pub(super) const fn is_plain(self, class: u8, size: Size) -> bool {
        let plain = (class as u32) << CLASS_SHIFT | (size as u32) << SIZE_SHIFT;
        (self.0 ^ plain) & (CLASS | SIZE | UNKNOWN) == 0
    }

    pub(super) const fn unknown(self) -> bool {
        self.0 & UNKNOWN != 0
    }

    /// Whether `last` is a bound only: no access was seen since the age of this frame became known.
    pub(super) const fn is_presumed(self) -> bool {
        self.0 & (UNKNOWN | HIDDEN) == HIDDEN
    }

    /// This record with `last` as a bound: the accessed bit may have been set at any time before that scan. An unknown age
    /// stays unknown.
    pub(super) const fn presumed(self) -> Word {
        match self.unknown() {
            true => self,
            false => Word(self.0 | HIDDEN),
        }
    }

    /// Whether some mapping of it was found young in this round.
    pub(super) const fn is_young(self) -> bool {
        self.0 & YOUNG != 0
    }

    pub(super) fn with_last(self, round: u32) -> Word {
        debug_assert!(round <= ROUND_MAX, "renumbered too late");
        Word(self.0 & !LAST | round)
    }

    pub(super) const fn with_size(self, size: Size) -> Word {
        Word(self.0 & !SIZE | (size as u32) << SIZE_SHIFT)
    }

    /// Seen by its owner: in which of its readings, and as what.
    pub(super) const fn seen_by_owner(self, class: u8, mark: u8) -> Word {
        let fields = (class as u32) << CLASS_SHIFT | (mark as u32) << MARK_SHIFT;
        Word(self.0 & !(CLASS | MARK) | fields)
    }

    /// Nobody saw it in this round, and it waits: for one round, in which some of those are read who may map it, then for another, in
    /// which all of them are, and which is the last.
    pub(super) const fn waiting(self) -> Word {
        let kept = if self.waits() { !SHARED } else { !0 };
        Word((self.0 | WAITS) & kept)
    }

    /// Whether nobody saw it since it began to wait.
    pub(super) const fn waits(self) -> bool {
        self.0 & WAITS != 0
    }

    /// Seen by somebody but its owner; `early` if the owner may still be read in this round.
    pub(super) const fn seen_by_another(self, early: bool) -> Word {
        if early && !self.is_shared() {
            return Word(self.0 | SHARED | WAITS);
        }
        Word((self.0 | SHARED) & !WAITS)
    }

    /// The round ends, in which it was seen. Where its owner turned out not to map it, one who saw it early has it alone.
    pub(super) const fn settled(self, missed: bool) -> Word {
        let kept = if missed && self.waits() { !SHARED } else { !0 };
        Word(self.0 & !WAITS & kept)
    }

    /// Whether somebody but its owner has seen it.
    pub(super) const fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// Whether both are counted at the same place of the same owner.
    pub(super) const fn counts_like(self, other: Word) -> bool {
        (self.0 ^ other.0) & (LAST | CLASS | UNKNOWN | HIDDEN | SIZE) == 0
    }

    /// As this round's first look finds it: what was of this round is now of the one before.
    pub(super) const fn into_new_round(self) -> Word {
        let before = (self.0 & BIT) << 1 | (self.0 & UNKNOWN) << 4;
        Word(self.0 & !(BIT | BIT_BEFORE | UNKNOWN_BEFORE | YOUNG | WAITS) | before)
    }

    /// Two records of the round before become one: as young as the younger, unknown if either is.
    pub(super) fn joined(self, other: Word) -> Word {
        let last = self.last().max(other.last());
        // What is hidden of an unknown age, and what is presumed of a known one, is not the same.
        let of_unknown = |word: Word| if word.unknown() { word.0 & HIDDEN } else { 0 };
        let hidden = match self.unknown() || other.unknown() {
            true => of_unknown(self) | of_unknown(other),
            false => (self.0 | other.0) & HIDDEN,
        };
        let flags = (self.0 | other.0) & (UNKNOWN | BIT | SHARED) | hidden;
        Word(self.0 & !(LAST | UNKNOWN | HIDDEN | BIT) | last | flags)
    }

    /// What this record is after `look` in round `now`; `first` if none saw it in this round before.
    pub(super) fn after(self, observed: Observation, first: bool, now: u32) -> Word {
        debug_assert!(self.last() <= now, "accessed in a round to come");
        let set = if observed.accessed {
            self.0 | BIT
        } else {
            self.0
        };
        let left_set = self.0 & BIT_BEFORE != 0;
        if observed.accessed && observed.slept && self.0 & UNKNOWN_BEFORE == 0 {
            // As old as it was told to be when the bit was seen set first. (The story: it counted as used again each time that a sleeping
            // program was read, and policies learned from it that what is so old is used.)
            return Word(set);
        }
        if observed.accessed && observed.spared && left_set && self.0 & UNKNOWN_BEFORE == 0 {
            // The age becomes 0, but the page does not count as used again: the bit may be the one that the last
            // reading told. A frame that several processes map, of which one was spared, may be counted or not. (The
            // story: a page of a file that was used once counted as used again at each early look.)
            return Word(set & !LAST | now);
        }
        if observed.accessed && (observed.trusted || !left_set) {
            return Word(set & !(LAST | UNKNOWN | HIDDEN) | YOUNG | now);
        }
        if observed.accessed || observed.hidden {
            let hidden = if observed.hidden { HIDDEN } else { 0 };
            return match (set & YOUNG != 0, first) {
                (true, _) => Word(set),
                (false, true) => Word(set & !HIDDEN | UNKNOWN | hidden),
                (false, false) if set & UNKNOWN == 0 => Word(set & !HIDDEN | UNKNOWN | hidden),
                (false, false) => Word(set | UNKNOWN | hidden),
            };
        }
        if first && self.unknown() {
            self.found_again(now)
        } else {
            Word(set)
        }
    }

    /// An unknown age becomes known: a bit that was left set was set by the round before, and what a
    /// device may have done it may have done until now.
    fn found_again(self, now: u32) -> Word {
        debug_assert!(self.unknown() && now > 0);
        let last = if self.0 & HIDDEN == 0 { now - 1 } else { now };
        Word(self.0 & !UNKNOWN | HIDDEN).with_last(last)
    }

    /// The round of the access before, if this change is an access after an idle time that is known.
    pub(super) const fn reaccessed(self, after: Word) -> Option<u32> {
        let became_young = after.0 & YOUNG != 0 && self.0 & YOUNG == 0;
        if became_young && after.0 & UNKNOWN_BEFORE == 0 && self.last() < after.last() {
            Some(self.last())
        } else {
            None
        }
    }
}
