//! The watched address spaces: which are alive, and how far each has been read.
//!
//! Invariant: an index is given out again only after no record names it. `mark` counts readings: a
//! record whose mark is its owner's was seen in the owner's last reading. Two bits are enough, for a
//! record that a reading missed is taken over, forgotten or marked anew at the next look or end of a round.
//! Who sleeps and has seen frames of an owner that has lost such frames since is due: it is to be read,
//! for these may be its own now.

use super::head::{NEVER, Seer};

/// The number of an address space in the books. Numbers of removed ones are given out again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner(pub(super) u16);

impl Owner {
    /// The number itself, for tables by owner: owners are numbered from 0, without large gaps.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Alive,
    /// Removed, but records may still name it.
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Mm {
    state: State,
    mark: u8,
    /// How often it was read, up to two.
    readings: u8,
    /// The last round that read it, and the last that skipped it.
    read: u32,
    skipped: u32,
    /// The last round that skipped it though it may have done anything.
    postponed: u32,
    /// Of which classes somebody has seen frames of its, one bit each.
    shown: u16,
    /// Of which classes it has lost such frames that those did not have who were asked for them in this round.
    lost: u16,
    /// Of which classes those who were read before it saw frames that it turned out not to map.
    early: u16,
    /// Of which classes somebody who is skipped in the round that ends has seen frames of its.
    awaited: u16,
    /// It is to be read the next time.
    due: bool,
}

/// So many pairs of owners between which shared frames move in a round are followed: each is looked up for each frame that moves.
const PAIRS_MAX: usize = 256;

/// An owner's frames of one class.
type Part = (u16, u8);

const fn bit(class: u8) -> u16 {
    1 << class
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: Vec<Mm>,
    /// By owner, whose frames its last reading saw that are others', the part seen last at the end.
    sees: Vec<Vec<Part>>,
    /// Of whom frames were lost in this round that nobody was asked for yet.
    fresh: Vec<Part>,
    /// Whether any has lost others.
    some_lost: bool,
    /// Whose frames that others have seen are now whose, of this round.
    handed_over: Vec<(Part, Part)>,
    /// Numbers that are free.
    free: Vec<u16>,
}

impl Owners {
    /// A free number.
    pub(super) fn add(&mut self) -> Option<Owner> {
        let new = Mm {
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

    /// It owns nothing more from now on: who has seen frames of its is due.
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

    /// The reader sees a frame that is another's.
    #[inline]
    pub(super) fn note_sharing(&mut self, reader: u16, part: Part) {
        let sees = &mut self.sees[usize::from(reader)];
        if sees.last() == Some(&part) {
            return;
        }
        // Neighbours mostly have the same owner: it is found at once the next time.
        match sees.iter().position(|seen| *seen == part) {
            Some(at) => {
                let last = sees.len() - 1;
                sees.swap(at, last);
            }
            None => sees.push(part),
        }
        self.all[usize::from(part.0)].shown |= bit(part.1);
    }

    /// A frame of the first that others have seen is the second's from now on.
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
            // All who have seen frames of the first are read instead.
            self.lose(from, true);
        }
    }

    /// A frame that others have seen is this one's no more, and somebody who sleeps may map it; some of these were read already, and do
    /// not, if it was `asked` for.
    pub(super) fn lose(&mut self, part: Part, asked: bool) {
        if asked {
            self.all[usize::from(part.0)].lost |= bit(part.1);
            self.some_lost = true;
        } else if !self.fresh.contains(&part) {
            self.fresh.push(part);
        }
    }

    /// A frame that this one saw, who was read before, turned out not to be its owner's. Of several nobody knows which have seen it: all
    /// who were read are due. (Were that so of one, too, each look would read whoever was read once, as long as what an owner gives back goes to
    /// another who is read before it.)
    pub(super) fn lose_early(&mut self, (owner, class): Part, seer: Seer) {
        match seer {
            Seer::One(reader) => {
                let mm = &mut self.all[usize::from(reader)];
                mm.due |= mm.state == State::Alive;
            }
            Seer::Several => {
                self.all[usize::from(owner)].early |= bit(class);
                self.some_lost = true;
            }
        }
    }

    /// It is to be read the next time, if it was not read in this round; whether that is so.
    pub(super) fn call(&mut self, owner: u16, now: u32) -> bool {
        let mm = &mut self.all[usize::from(owner)];
        let may_map = mm.state == State::Alive && mm.read != now;
        mm.due |= may_map;
        may_map
    }

    /// Those are due who may map what was lost in this round: of what nobody saw those who were not read, of what somebody saw early those who
    /// were. Most often whoever has seen frames of an owner has all that others have: two are asked before all are, those that came last,
    /// which have the most of what a fork gives. (Of 200 idle workers whose parent wrote another page each tenth of a second each look read
    /// all: 2.4 s in 20 s, .5 s when they were skipped.)
    fn call_sharers(&mut self, now: u32) {
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
                let of = &self.all[usize::from(owner)];
                bit(class) & (if mm.read == now { of.early } else { of.lost }) != 0
            };
            self.all[at].due |= sees.iter().any(is_lost);
        }
        for mm in &mut self.all {
            (mm.lost, mm.early) = (0, 0);
        }
    }

    /// Who has seen frames that were handed over may map them still: they are those of who has them now.
    fn follow(&mut self) {
        let handed_over = std::mem::take(&mut self.handed_over);
        let mut is_done = handed_over.is_empty();
        // What one has from another may have come to a third in the same round.
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

    /// Whether it is to be read though it slept.
    pub(super) fn is_due(&self, owner: Owner) -> bool {
        self.all.get(owner.index()).is_some_and(|mm| mm.due)
    }

    /// Whether somebody who is skipped in the round that ends may map one of these that others have seen.
    #[inline]
    pub(super) fn is_awaited(&self, (owner, class): Part) -> bool {
        self.all[usize::from(owner)].awaited & bit(class) != 0
    }

    /// Whether this round may still read it.
    #[inline]
    pub(super) fn is_to_come(&self, owner: u16, now: u32) -> bool {
        let mm = &self.all[usize::from(owner)];
        mm.read != now && mm.skipped != now
    }

    /// It is not read in this round.
    pub(super) fn skip(&mut self, owner: Owner, now: u32) {
        assert!(self.is_alive(owner.0), "only what is there is skipped");
        self.all[owner.index()].skipped = now;
    }

    /// It is skipped, and may have done anything.
    pub(super) fn postpone(&mut self, owner: Owner, now: u32) {
        self.all[owner.index()].postponed = now;
    }

    /// Whether it is skipped in this round and may have done anything: what it had may be another's by now.
    #[inline]
    pub(super) fn is_postponed(&self, owner: u16, now: u32) -> bool {
        self.all[usize::from(owner)].postponed == now
    }

    /// It is read in this round: the mark of this reading, and whether it is the first one.
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

    /// Whether it is there.
    pub(super) fn is_alive(&self, owner: u16) -> bool {
        self.all
            .get(usize::from(owner))
            .is_some_and(|mm| mm.state == State::Alive)
    }

    /// Whether its last reading missed a record with this mark, or it was removed.
    #[inline]
    pub(super) fn missed(&self, owner: u16, mark: u8) -> bool {
        let mm = &self.all[usize::from(owner)];
        mm.state != State::Alive || mm.mark != mark
    }

    /// The mark of its reading before the last: what has it, that one missed. (What waits for some rounds gets it anew in each.)
    pub(super) fn mark_before(&self, owner: u16) -> u8 {
        (self.all[usize::from(owner)].mark + 3) & 3
    }

    /// Whether its records stay though nobody saw them in this round.
    #[inline]
    pub(super) fn is_skipped(&self, owner: u16, now: u32) -> bool {
        self.all[usize::from(owner)].skipped == now
    }

    /// All were looked at: who was neither skipped nor seen to map anything was read and maps nothing.
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

    /// The round ends. Numbers of removed ones that own nothing are free.
    pub(super) fn end_round(&mut self, now: u32, owns_nothing: impl Fn(usize) -> bool) {
        self.follow();
        self.call_sharers(now);
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

    /// Rounds get new numbers: none of the old ones may be taken for a coming one.
    pub(super) fn renumber(&mut self) {
        for mm in &mut self.all {
            (mm.read, mm.skipped, mm.postponed) = (NEVER, NEVER, NEVER);
        }
        debug_assert!(self.all.iter().all(|mm| mm.read == NEVER));
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let seen: usize = self.sees.iter().map(Vec::capacity).sum();
        self.all.capacity() * size_of::<Mm>()
            + self.sees.capacity() * size_of::<Vec<u16>>()
            + seen * size_of::<Part>()
            + self.free.capacity() * size_of::<u16>()
    }
}
