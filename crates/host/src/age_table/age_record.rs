//! The age record of one frame, in 32 bits, and how one observation changes it.
//!
//! Invariant: of all observations in one scan, Young wins over Unknown, and Unknown wins over Old,
//! in whatever order they arrive. No function here makes a frame older than the observations allow.
//! While the age is unknown, `last` is meaningless, but never later than this scan.

use super::Observation;

/// The highest scan number that a record can hold; before it is reached, the timeline renumbers
/// scans.
pub(super) const SCAN_MAX: u32 = 0xffff;

/// Bits that hold the number of the scan in which the last access was seen.
const LAST: u32 = SCAN_MAX;
const CLASS_SHIFT: u32 = 16;
/// Bits that hold the frame's class ([`super::Class`]).
const CLASS: u32 = 0xf << CLASS_SHIFT;
const MARK_SHIFT: u32 = 20;
/// Bits that hold the mark of the owner's walk that last saw the frame: the walk's number, modulo
/// 4.
const MARK: u32 = 3 << MARK_SHIFT;
const SIZE_SHIFT: u32 = 22;
/// Bits that hold the number of frames that the record covers, as a [`Size`].
const SIZE: u32 = 3 << SIZE_SHIFT;
/// The age is unknown.
const UNKNOWN: u32 = 1 << 24;
/// This bit has two meanings. If the age is unknown: accesses may be hidden, so that a clear
/// accessed bit proves nothing. If the age is known: no access was seen since it became known, so
/// `last` is only the youngest possible value.
const HIDDEN: u32 = 1 << 25;
/// In the last scan that saw this frame, at least one mapping of the frame had the accessed bit
/// set.
const ACCESSED: u32 = 1 << 26;
/// Values that `ACCESSED` and `UNKNOWN` had before this scan.
const ACCESSED_BEFORE: u32 = 1 << 27;
const UNKNOWN_BEFORE: u32 = 1 << 28;
/// In this scan, at least one mapping of the frame was found accessed since its last walk.
const YOUNG: u32 = 1 << 29;
/// An address space other than the owner was found to map this frame.
const SHARED: u32 = 1 << 30;
/// This bit has two meanings. Before this scan sees the frame: an earlier scan did not see it, and
/// the record is kept until an idle address space that may map the frame has been walked. After
/// this scan has seen the frame: `SHARED` rests on a single observation, in an address space that
/// was walked before the owner. If the owner turns out not to map the frame, the end of the scan
/// clears `SHARED` again.
const WAITING: u32 = 1 << 31;

/// Number of frames that one record covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Size {
    /// One frame.
    One,
    /// A huge page of the second page table level: 512 frames.
    Huge,
    /// A huge page of the third page table level: 262144 frames.
    Giant,
}

impl Size {
    /// Returns the size for this number of pages; `None` if no page table entry maps so many.
    pub(super) const fn of(pages: u32) -> Option<Size> {
        match pages {
            1 => Some(Size::One),
            512 => Some(Size::Huge),
            262_144 => Some(Size::Giant),
            _ => None,
        }
    }

    /// Returns the number of frames.
    pub(super) const fn pages(self) -> u64 {
        match self {
            Size::One => 1,
            Size::Huge => 512,
            Size::Giant => 262_144,
        }
    }

    /// Returns the next smaller size: a record is split into 512 records of that size.
    pub(super) const fn part(self) -> Size {
        match self {
            Size::One | Size::Huge => Size::One,
            Size::Giant => Size::Huge,
        }
    }
}

/// The age record of one frame or huge page, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AgeRecord(u32);

impl AgeRecord {
    /// Returns the record of a frame that was not known before scan `now`. The last access is
    /// assumed to be in that scan, the youngest possible.
    pub(super) fn fresh(now: u32, size: Size) -> AgeRecord {
        debug_assert!(now <= SCAN_MAX, "renumbered too late");
        AgeRecord(now | HIDDEN).with_size(size)
    }

    /// Returns the scan in which the last access was seen, or the youngest possible value of that
    /// scan ([`AgeRecord::is_presumed`]).
    pub(super) const fn last(self) -> u32 {
        self.0 & LAST
    }

    /// Returns the number of the frame's class.
    pub(super) const fn class(self) -> u8 {
        ((self.0 & CLASS) >> CLASS_SHIFT) as u8
    }

    /// Returns the two lowest bits of the number of the owner's walk that last saw this frame.
    pub(super) const fn mark(self) -> u8 {
        ((self.0 & MARK) >> MARK_SHIFT) as u8
    }

    /// Returns the number of frames that the record covers.
    pub(super) const fn size(self) -> Size {
        match (self.0 & SIZE) >> SIZE_SHIFT {
            0 => Size::One,
            1 => Size::Huge,
            _ => Size::Giant,
        }
    }

    /// Returns whether the record has this size; faster than comparing `size()`.
    pub(super) const fn has_size(self, size: Size) -> bool {
        self.0 & SIZE == (size as u32) << SIZE_SHIFT
    }

    /// Returns whether the record has this class and size and a known age. An observation without
    /// access leaves such a record as it is.
    pub(super) const fn is_plain(self, class: u8, size: Size) -> bool {
        let plain = (class as u32) << CLASS_SHIFT | (size as u32) << SIZE_SHIFT;
        (self.0 ^ plain) & (CLASS | SIZE | UNKNOWN) == 0
    }

    /// Returns whether the age is unknown.
    pub(super) const fn unknown(self) -> bool {
        self.0 & UNKNOWN != 0
    }

    /// Returns whether `last` is only the youngest possible value: the age is known, but no access
    /// was seen since it became known.
    pub(super) const fn is_presumed(self) -> bool {
        self.0 & (UNKNOWN | HIDDEN) == HIDDEN
    }

    /// Returns the record with `last` marked as the youngest possible value: the accessed bit may
    /// have been set at any time before that scan. A record of unknown age is returned unchanged.
    pub(super) const fn presumed(self) -> AgeRecord {
        match self.unknown() {
            true => self,
            false => AgeRecord(self.0 | HIDDEN),
        }
    }

    /// Returns whether this scan found some mapping of the frame accessed.
    pub(super) const fn is_young(self) -> bool {
        self.0 & YOUNG != 0
    }

    pub(super) fn with_last(self, scan: u32) -> AgeRecord {
        debug_assert!(scan <= SCAN_MAX, "renumbered too late");
        AgeRecord(self.0 & !LAST | scan)
    }

    pub(super) const fn with_size(self, size: Size) -> AgeRecord {
        AgeRecord(self.0 & !SIZE | (size as u32) << SIZE_SHIFT)
    }

    /// Returns the record after its owner was found to map the frame: with this class, and the mark
    /// of the owner's walk.
    pub(super) const fn seen_by_owner(self, class: u8, mark: u8) -> AgeRecord {
        let fields = (class as u32) << CLASS_SHIFT | (mark as u32) << MARK_SHIFT;
        AgeRecord(self.0 & !(CLASS | MARK) | fields)
    }

    /// Returns the record of a frame that this scan did not see, marked as waiting. It waits at
    /// most twice: for a scan that walks some of the address spaces that may map the frame, then
    /// for a scan that walks all of them.
    pub(super) const fn as_waiting(self) -> AgeRecord {
        let kept = if self.is_waiting() { !SHARED } else { !0 };
        AgeRecord((self.0 | WAITING) & kept)
    }

    /// Returns whether the record is marked as waiting ([`AgeRecord::as_waiting`]) and was not seen
    /// since.
    pub(super) const fn is_waiting(self) -> bool {
        self.0 & WAITING != 0
    }

    /// Returns the record after an address space other than its owner was found to map the frame.
    /// `early`: this scan may still walk the owner.
    pub(super) const fn seen_by_another(self, early: bool) -> AgeRecord {
        if early && !self.is_shared() {
            return AgeRecord(self.0 | SHARED | WAITING);
        }
        AgeRecord((self.0 | SHARED) & !WAITING)
    }

    /// Returns the record of a frame that this scan saw, for the end of the scan. The frame is no
    /// longer shared if its owner turned out not to map it (`missed`) and only one early
    /// observation made it shared.
    pub(super) const fn at_scan_end(self, missed: bool) -> AgeRecord {
        let kept = if missed && self.is_waiting() {
            !SHARED
        } else {
            !0
        };
        AgeRecord(self.0 & !WAITING & kept)
    }

    /// Returns whether an address space other than the owner was found to map the frame.
    pub(super) const fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// Returns whether both records belong to the same page count, provided that they have the same
    /// owner.
    pub(super) const fn counts_like(self, other: AgeRecord) -> bool {
        (self.0 ^ other.0) & (LAST | CLASS | UNKNOWN | HIDDEN | SIZE) == 0
    }

    /// Returns the record for the first observation in a new scan: `ACCESSED` and `UNKNOWN` become
    /// `ACCESSED_BEFORE` and `UNKNOWN_BEFORE`.
    pub(super) const fn into_new_scan(self) -> AgeRecord {
        let before = (self.0 & ACCESSED) << 1 | (self.0 & UNKNOWN) << 4;
        AgeRecord(
            self.0 & !(ACCESSED | ACCESSED_BEFORE | UNKNOWN_BEFORE | YOUNG | WAITING) | before,
        )
    }

    /// Joins two records as they were before this scan. The result is as young as the younger
    /// record; its age is unknown if either record's age is.
    pub(super) fn joined(self, other: AgeRecord) -> AgeRecord {
        let last = self.last().max(other.last());
        // `HIDDEN` means different things for unknown and for known ages.
        let of_unknown = |word: AgeRecord| if word.unknown() { word.0 & HIDDEN } else { 0 };
        let hidden = match self.unknown() || other.unknown() {
            true => of_unknown(self) | of_unknown(other),
            false => (self.0 | other.0) & HIDDEN,
        };
        let flags = (self.0 | other.0) & (UNKNOWN | ACCESSED | SHARED) | hidden;
        AgeRecord(self.0 & !(LAST | UNKNOWN | HIDDEN | ACCESSED) | last | flags)
    }

    /// Returns the record after an observation in scan `now`. `first`: this scan has not observed
    /// the frame before.
    pub(super) fn after(self, observed: Observation, first: bool, now: u32) -> AgeRecord {
        debug_assert!(self.last() <= now, "accessed in a scan to come");
        let set = if observed.accessed {
            self.0 | ACCESSED
        } else {
            self.0
        };
        let was_set_before = self.0 & ACCESSED_BEFORE != 0;
        if observed.accessed && observed.idle && self.0 & UNKNOWN_BEFORE == 0 {
            // Keeps the age that was reported when the bit was first seen set. The page does not
            // count as accessed again. Otherwise each walk of an idle program would teach policies
            // that pages of that age are accessed.
            return AgeRecord(set);
        }
        if observed.accessed && observed.kept_bits && was_set_before && self.0 & UNKNOWN_BEFORE == 0
        {
            // The age becomes 0, but the page does not count as accessed again: the last walk may
            // have reported this bit already. (If several processes map the frame, and the bits of
            // one of them were not cleared, the frame may be counted or not.)
            return AgeRecord(set & !LAST | now);
        }
        if observed.accessed && (observed.trusted || !was_set_before) {
            return AgeRecord(set & !(LAST | UNKNOWN | HIDDEN) | YOUNG | now);
        }
        if observed.accessed || observed.hidden {
            let hidden = if observed.hidden { HIDDEN } else { 0 };
            return match (set & YOUNG != 0, first) {
                (true, _) => AgeRecord(set),
                (false, true) => AgeRecord(set & !HIDDEN | UNKNOWN | hidden),
                (false, false) if set & UNKNOWN == 0 => AgeRecord(set & !HIDDEN | UNKNOWN | hidden),
                (false, false) => AgeRecord(set | UNKNOWN | hidden),
            };
        }
        if first && self.unknown() {
            self.found_again(now)
        } else {
            AgeRecord(set)
        }
    }

    /// Makes an unknown age known, after a trusted observation without access. If a bit that was
    /// not cleared was the reason, the last access was no later than the previous scan. If accesses
    /// were hidden, a device may have accessed the page until now.
    fn found_again(self, now: u32) -> AgeRecord {
        debug_assert!(self.unknown() && now > 0);
        let last = if self.0 & HIDDEN == 0 { now - 1 } else { now };
        AgeRecord(self.0 & !UNKNOWN | HIDDEN).with_last(last)
    }

    /// Returns the scan of the previous access if `after` records an access after a known idle
    /// time; otherwise `None`.
    pub(super) const fn reaccessed(self, after: AgeRecord) -> Option<u32> {
        let became_young = after.0 & YOUNG != 0 && self.0 & YOUNG == 0;
        if became_young && after.0 & UNKNOWN_BEFORE == 0 && self.last() < after.last() {
            Some(self.last())
        } else {
            None
        }
    }
}
