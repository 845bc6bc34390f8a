//! The watched address spaces, called owners: which are alive, which scan last walked or skipped
//! each, and which frames of other owners each was found to map.
//!
//! Invariant: an owner's number is reused only after no record has it. `mark` counts walks: a
//! record with its owner's mark was seen in the owner's last walk. Two bits suffice: a record that
//! a walk missed gets another owner, is dropped, or gets a new mark before the count wraps.
//!
//! Why owners become pending (`due`: the next scan walks the owner even if it is idle): an idle
//! owner was found to map frames of another owner, and that other owner has lost such frames. The
//! frames may belong to the idle owner now.

use super::head::{EarlyObserver, NEVER};

/// Number of an address space in the age table. After a removal the number is reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner(pub(super) u16);

impl Owner {
    /// Returns the number as an index for tables by owner: owners are numbered from 0, with few
    /// gaps.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether an owner number is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Alive,
    /// Removed, but records may still have this owner.
    Leaving,
}

/// What is known of one address space.
#[derive(Clone, Copy, Debug)]
struct OwnerState {
    state: State,
    mark: u8,
    /// Number of walks of this owner, saturating: only whether there was more than one matters.
    readings: u8,
    /// Number of the last scan that walked this owner.
    read: u32,
    /// Number of the last scan that skipped this owner.
    skipped: u32,
    /// Number of the last scan that skipped this owner although its process may have run.
    postponed: u32,
    /// Frame classes, as a bit set ([`bit`]): another address space was found to map a frame of
    /// this owner with this class.
    shown: u16,
    /// Frame classes of shared frames that this owner lost. The first sharers that were walked in
    /// search of them do not map them, so all sharers are to be walked.
    lost: u16,
    /// Frame classes of frames that this owner turned out not to map, although address spaces that
    /// the same scan walked earlier map them.
    early: u16,
    /// Frame classes in which an address space that the ending scan skipped was once found to map
    /// frames of this owner.
    awaited: u16,
    /// Whether the next scan must walk this owner.
    due: bool,
}

/// Most pairs of parts of which one scan records that shared frames moved from one to the other.
/// (The list of pairs is searched for each moved frame.)
const PAIRS_MAX: usize = 256;

/// A part of the frames: number of an owner, then number of a frame class ([`super::Class`]).
type Part = (u16, u8);

/// Returns the bit of a frame class in a bit set of classes: bit N for class N.
const fn bit(class: u8) -> u16 {
    1 << class
}

/// All address spaces.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: Vec<OwnerState>,
    /// For each owner: the parts of other owners of which its last walk found frames. The part
    /// found last is at the end.
    sees: Vec<Vec<Part>>,
    /// Parts that lost shared frames in this scan, and of which no sharer was walked yet in search
    /// of them.
    fresh: Vec<Part>,
    /// Whether any owner has bits in `lost` or `early`.
    some_lost: bool,
    /// Pairs of parts between which shared frames moved in this scan: from, to.
    handed_over: Vec<(Part, Part)>,
    /// Owner numbers that are free.
    free: Vec<u16>,
}

impl Owners {
    /// Returns a free owner number; `None` if there is none.
    pub(super) fn add(&mut self) -> Option<Owner> {
        let new = OwnerState {
            state: State::Alive,
            mark: 0,
            readings: 0,
            read: NEVER,
            skipped: NEVER,
            postponed: NEVER,
            shown: 0,
            lost: 0,
            early: 0,
            awaited: 0,
            due: false,
        };
        let owner = match self.free.pop() {
            Some(free) => Owner(free),
            None => Owner(u16::try_from(self.all.len()).ok()?),
        };
        match self.all.get_mut(owner.index()) {
            Some(mm) => {
                assert_eq!(mm.state, State::Free, "a number in use was given out");
                *mm = new;
            }
            None => {
                self.all.push(new);
                self.sees.push(Vec::new());
            }
        }
        debug_assert!(self.is_alive(owner.0));
        Some(owner)
    }

    /// Removes an owner. Other owners that were found to map its frames become pending.
    pub(super) fn remove(&mut self, owner: Owner) {
        let mm = &mut self.all[owner.index()];
        assert_eq!(mm.state, State::Alive, "removed once");
        mm.state = State::Leaving;
        mm.skipped = NEVER;
        self.sees[owner.index()] = Vec::new();
        if self.all[owner.index()].shown == 0 {
            return;
        }
        for (mm, sees) in self.all.iter_mut().zip(&self.sees) {
            mm.due |= sees.iter().any(|part| part.0 == owner.0);
        }
    }

    /// Records that the walk of `reader` found a frame of another owner's part.
    #[inline]
    pub(super) fn note_sharing(&mut self, reader: u16, part: Part) {
        let sees = &mut self.sees[usize::from(reader)];
        if sees.last() == Some(&part) {
            return;
        }
        // Neighbouring frames mostly have the same owner, so the next search is short.
        match sees.iter().position(|seen| *seen == part) {
            Some(at) => {
                let last = sees.len() - 1;
                sees.swap(at, last);
            }
            None => sees.push(part),
        }
        self.all[usize::from(part.0)].shown |= bit(part.1);
    }

    /// Records that a shared frame has moved from one part to another.
    #[inline]
    pub(super) fn hand_over(&mut self, from: Part, to: Part) {
        let pair = (from, to);
        if from == to || self.handed_over.last() == Some(&pair) || self.handed_over.contains(&pair)
        {
            return;
        }
        if self.handed_over.len() < PAIRS_MAX {
            self.handed_over.push(pair);
        } else {
            // The list is full: all owners that were found to map frames of `from` are walked
            // instead.
            self.note_lost(from, true);
        }
    }

    /// Records that a part lost a shared frame that an idle owner may map. `requested`: the first
    /// candidates were walked and do not map the frame, so that all candidates must be walked next.
    pub(super) fn note_lost(&mut self, part: Part, requested: bool) {
        if requested {
            self.all[usize::from(part.0)].lost |= bit(part.1);
            self.some_lost = true;
        } else if !self.fresh.contains(&part) {
            self.fresh.push(part);
        }
    }

    /// Records that an owner turned out not to map a frame that this scan found in address spaces
    /// walked before the owner. A single such observer becomes pending. If there are several, all
    /// sharers that were walked become pending, as it is unknown which of them map the frame. (If a
    /// single observer were treated the same way, one process that frees frames could make every
    /// scan walk all processes.)
    pub(super) fn note_lost_early(&mut self, (owner, class): Part, seer: EarlyObserver) {
        match seer {
            EarlyObserver::One(reader) => {
                let mm = &mut self.all[usize::from(reader)];
                mm.due |= mm.state == State::Alive;
            }
            EarlyObserver::Several => {
                self.all[usize::from(owner)].early |= bit(class);
                self.some_lost = true;
            }
        }
    }

    /// Makes an owner pending unless this scan has walked it; returns whether it is pending now.
    pub(super) fn make_pending(&mut self, owner: u16, now: u32) -> bool {
        let mm = &mut self.all[usize::from(owner)];
        let may_map = mm.state == State::Alive && mm.read != now;
        mm.due |= may_map;
        may_map
    }

    /// Makes the owners pending that may map frames lost in this scan: owners that were not walked,
    /// for frames that no walk saw; owners that were walked, for frames seen before their owner's
    /// walk. Mostly each owner that has seen frames of a part has seen all of them, so only two are
    /// walked first: those with the highest numbers. They are mostly the youngest processes, which
    /// still have most of what a fork shared. (When all were walked at once, 200 idle workers,
    /// whose parent wrote a page each tenth of a second, cost 2.4 s of processor time in 20 s
    /// instead of 0.5 s.)
    fn make_sharers_pending(&mut self, now: u32) {
        for part in std::mem::take(&mut self.fresh) {
            let has_seen = |at: &usize| self.all[*at].read != now && self.sees[*at].contains(&part);
            let all = (0..self.all.len()).rev();
            let first: Vec<usize> = all.filter(has_seen).take(2).collect();
            for at in first {
                self.all[at].due = true;
            }
        }
        if !std::mem::take(&mut self.some_lost) {
            return;
        }
        for (at, sees) in self.sees.iter().enumerate() {
            let mm = self.all[at];
            let is_lost = |&(owner, class): &Part| {
                let lost_from = &self.all[usize::from(owner)];
                bit(class)
                    & (if mm.read == now {
                        lost_from.early
                    } else {
                        lost_from.lost
                    })
                    != 0
            };
            self.all[at].due |= sees.iter().any(is_lost);
        }
        for mm in &mut self.all {
            (mm.lost, mm.early) = (0, 0);
        }
    }

    /// For frames that moved from one part to another: makes the sharers of the first part sharers
    /// of the second, as they may still map the moved frames.
    fn follow(&mut self) {
        let handed_over = std::mem::take(&mut self.handed_over);
        let mut is_done = handed_over.is_empty();
        // Frames may have moved on to a third part in the same scan.
        while !is_done {
            is_done = true;
            for (from, to) in &handed_over {
                for (at, sees) in self.sees.iter_mut().enumerate() {
                    let is_own = at == usize::from(to.0);
                    if !is_own && sees.contains(from) && !sees.contains(to) {
                        sees.push(*to);
                        self.all[usize::from(to.0)].shown |= bit(to.1);
                        is_done = false;
                    }
                }
            }
        }
    }

    /// Returns whether the next scan must walk this owner even if its process is idle.
    pub(super) fn is_due(&self, owner: Owner) -> bool {
        self.all.get(owner.index()).is_some_and(|mm| mm.due)
    }

    /// Returns whether an owner that the ending scan skipped may map a shared frame of this part.
    #[inline]
    pub(super) fn is_awaited(&self, (owner, class): Part) -> bool {
        self.all[usize::from(owner)].awaited & bit(class) != 0
    }

    /// Returns whether this scan may still walk the owner.
    #[inline]
    pub(super) fn is_to_come(&self, owner: u16, now: u32) -> bool {
        let mm = &self.all[usize::from(owner)];
        mm.read != now && mm.skipped != now
    }

    /// Records that this scan does not walk the owner.
    pub(super) fn skip(&mut self, owner: Owner, now: u32) {
        assert!(self.is_alive(owner.0), "only what is there is skipped");
        self.all[owner.index()].skipped = now;
    }

    /// Records that this scan skips the owner although its process may have run.
    pub(super) fn postpone(&mut self, owner: Owner, now: u32) {
        self.all[owner.index()].postponed = now;
    }

    /// Returns whether this scan skips the owner although its process may have run: another address
    /// space may have its frames by now.
    #[inline]
    pub(super) fn is_postponed(&self, owner: u16, now: u32) -> bool {
        self.all[usize::from(owner)].postponed == now
    }

    /// Records that this scan walks the owner; returns the mark of this walk, then whether it is
    /// the owner's first.
    pub(super) fn read(&mut self, owner: Owner, now: u32) -> (u8, bool) {
        assert!(self.is_alive(owner.0), "only what is there is read");
        let mm = &mut self.all[owner.index()];
        if mm.read != now {
            mm.read = now;
            mm.mark = (mm.mark + 1) & 3;
            mm.due = false;
            mm.readings = mm.readings.saturating_add(1);
            self.sees[owner.index()].clear();
        }
        (mm.mark, mm.readings == 1)
    }

    /// Returns whether the owner exists and was not removed.
    pub(super) fn is_alive(&self, owner: u16) -> bool {
        self.all
            .get(usize::from(owner))
            .is_some_and(|mm| mm.state == State::Alive)
    }

    /// Returns whether the owner was removed, or its last walk did not see a record with this mark.
    #[inline]
    pub(super) fn missed(&self, owner: u16, mark: u8) -> bool {
        let mm = &self.all[usize::from(owner)];
        mm.state != State::Alive || mm.mark != mark
    }

    /// Returns the mark of the owner's walk before the last one: a record with this mark was missed
    /// by the last walk. A record that waits for several scans gets this mark again at the end of
    /// each.
    pub(super) fn mark_before(&self, owner: u16) -> u8 {
        (self.all[usize::from(owner)].mark + 3) & 3
    }

    /// Returns whether the owner's unseen records are kept because this scan skipped the owner.
    #[inline]
    pub(super) fn is_skipped(&self, owner: u16, now: u32) -> bool {
        self.all[usize::from(owner)].skipped == now
    }

    /// Ends all walks of a scan. An owner that was neither skipped nor observed maps nothing: it
    /// counts as walked, and all its records as missed.
    pub(super) fn end_readings(&mut self, now: u32) {
        for (mm, sees) in self.all.iter_mut().zip(&mut self.sees) {
            mm.awaited = 0;
            if mm.state == State::Alive && mm.read != now && mm.skipped != now {
                mm.mark = (mm.mark + 1) & 3;
                mm.due = false;
                sees.clear();
            }
        }
        for (at, sees) in self.sees.iter().enumerate() {
            if self.all[at].skipped == now {
                for (owner, class) in sees {
                    self.all[usize::from(*owner)].awaited |= bit(*class);
                }
            }
        }
        debug_assert!(self.all.iter().all(|mm| mm.mark < 4));
    }

    /// Ends a scan. Numbers of removed owners that own nothing become free.
    pub(super) fn end_scan(&mut self, now: u32, owns_nothing: impl Fn(usize) -> bool) {
        self.follow();
        self.make_sharers_pending(now);
        for (at, mm) in self.all.iter_mut().enumerate() {
            if mm.state == State::Leaving && owns_nothing(at) {
                mm.state = State::Free;
                self.free.extend(u16::try_from(at));
            }
        }
        debug_assert!(self.all.iter().all(|mm| mm.mark < 4));
        debug_assert!(
            self.all
                .iter()
                .all(|mm| mm.state == State::Alive || mm.skipped == NEVER)
        );
    }

    /// Forgets all scan numbers before scans are renumbered. Otherwise an old number could equal
    /// the number of a later scan.
    pub(super) fn renumber(&mut self) {
        for mm in &mut self.all {
            (mm.read, mm.skipped, mm.postponed) = (NEVER, NEVER, NEVER);
        }
        debug_assert!(self.all.iter().all(|mm| mm.read == NEVER));
    }

    /// Returns the heap memory of this bookkeeping, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let seen: usize = self.sees.iter().map(Vec::capacity).sum();
        self.all.capacity() * size_of::<OwnerState>()
            + self.sees.capacity() * size_of::<Vec<u16>>()
            + seen * size_of::<Part>()
            + self.free.capacity() * size_of::<u16>()
    }
}
