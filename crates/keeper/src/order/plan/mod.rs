//! In which order the moves of a set of events happened.
//!
//! Events are read in the order in which threads came to announce them. That is another one than
//! that of the calls only where the kernel has given a place away again before its former owner
//! announced that it had left: then a move to a place is read before the move from there. So a set is
//! gone through as it was read, and a move to a place that is taken may be put behind a later move
//! from there. Which one, or none, is tried out on a sketch of the address space. What a choice
//! makes impossible or unlikely counts against it, see the constants. The choice with the least
//! against it wins, the first of equals.
//!
//! Each move is paired with the unmapping of its old place that mremap tells of behind it, if there
//! is one; without it the old place stays mapped (MREMAP_DONTUNMAP). Where several pairs are
//! possible, that is a choice, too.
//!
//! Invariant: the order is a permutation of the set, and that of reading where nothing is in
//! conflict.

mod owed;
mod parts;
#[cfg(test)]
mod tests;

use crate::layout::QUEUE_MAX;
use crate::word::PAGE_SIZE;
use owed::Owed;
use parts::Parts;
use uffd::abi::{UffdMsg, event};

/// Choices that one set may ask for; behind them the first option is taken.
const CHOICES_MAX: usize = 24;
/// Orders that are tried for one set.
const TRIES_MAX: usize = 300;
/// Messages that are gone through for one set, in all tries together.
const STEPS_MAX: usize = 20_000;
/// How many moves may have to go first, one before the other.
const DEPTH_MAX: usize = 16;

/// Mark of a move, in its phase: the old place stays mapped (MREMAP_DONTUNMAP).
pub const STAYS: u8 = 0x80;

/// Against an order: a move from where nothing is, or parts that did not come there as one.
const NO_SOURCE: u32 = 1;
/// A move to a place whose owner has not left, and no unmapping explains it.
const NEVER_LEFT: u32 = 2;
/// Something is taken away before the call that brought it has returned.
const RACE: u32 = 2;
/// Something is taken away before those who were there before it have told that they left.
const SOON: u32 = 1;
/// A page is present whose bytes should be with us: nothing was installed meanwhile.
const REFUTED: u32 = 4;
/// In the end the kernel has something registered where nothing should be, or nothing.
const WRONG_END: u32 = 3;
const PAGE: u64 = PAGE_SIZE as u64;

/// What is known besides the events.
pub trait Ground {
    /// The first part of `start..end` where something registered is, before the set; empty at `end`
    /// if there is none.
    fn known(&self, start: u64, end: u64) -> (u64, u64);
    /// Whether all that is registered is known: for a forked child only what is out is.
    fn complete(&self) -> bool;
    /// Whether all of a range is registered now, after the set; `None` if the kernel does not say.
    fn registered(&self, start: u64, end: u64) -> Option<bool>;
    /// Whether a page is present in `to..to + len` whose bytes are out, by the words of
    /// `from..from + len` as they are before the set.
    fn refuted(&self, from: u64, to: u64, len: u64) -> bool;
}

/// The choices of one try: which option was taken, of how many.
#[derive(Clone, Copy)]
struct Choices {
    taken: [u8; CHOICES_MAX],
    of: [u8; CHOICES_MAX],
    len: usize,
}

/// Works out orders. Large: it lives in static memory.
pub struct Plan {
    msgs: [UffdMsg; QUEUE_MAX],
    len: usize,
    parts: Parts,
    /// Of a move: the unmapping of its own. Of such an unmapping: its move.
    own: [Option<usize>; QUEUE_MAX],
    /// Of a move: the last message that tells of the departure of those who were there before.
    late: [usize; QUEUE_MAX],
    done: [bool; QUEUE_MAX],
    owed: Owed,
    order: [u16; QUEUE_MAX],
    order_len: usize,
    choices: Choices,
    against: u32,
}

impl Plan {
    /// An empty plan.
    #[must_use]
    pub const fn new() -> Plan {
        Plan {
            msgs: [UffdMsg {
                event: 0,
                phase: 0,
                turn: 0,
                source: 0,
                arg0: 0,
                arg1: 0,
                arg2: 0,
            }; QUEUE_MAX],
            len: 0,
            parts: Parts::new(),
            own: [None; QUEUE_MAX],
            late: [0; QUEUE_MAX],
            done: [false; QUEUE_MAX],
            owed: Owed::new(),
            order: [0; QUEUE_MAX],
            order_len: 0,
            choices: Choices {
                taken: [0; CHOICES_MAX],
                of: [0; CHOICES_MAX],
                len: 0,
            },
            against: 0,
        }
    }

    /// Starts a new set.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds the next message of the set, in the order of reading. Those beyond the room are not
    /// ordered; there are no more than a queue holds.
    pub fn add(&mut self, msg: UffdMsg) {
        if self.len < QUEUE_MAX {
            self.msgs[self.len] = msg;
            self.len += 1;
        }
    }

    /// How many messages were added.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none was.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `n`th message to be applied, once the order is worked out. A move that leaves its old
    /// place mapped is marked [`STAYS`].
    #[must_use]
    pub fn nth(&self, n: usize) -> UffdMsg {
        let i = usize::from(self.order[n % QUEUE_MAX]) % QUEUE_MAX;
        let mut msg = self.msgs[i];
        if msg.event == event::REMAP && self.own[i].is_none() {
            msg.phase |= STAYS;
        }
        msg
    }

    /// Works out the order of the messages that were added.
    pub fn work_out(&mut self, ground: &impl Ground) {
        self.choices.taken = [0; CHOICES_MAX];
        let mut best = (u32::MAX, [0; CHOICES_MAX]);
        let mut last = false;
        for _ in 0..(STEPS_MAX / self.len.max(1)).clamp(1, TRIES_MAX) {
            self.run(ground);
            if self.choices.len > 0 {
                self.against += self.present_where_missing(ground) + self.wrong_end(ground);
            }
            last = self.against < best.0;
            if last {
                best = (self.against, self.choices.taken);
            }
            if best.0 == 0 || !self.next_choices() {
                break;
            }
        }
        if !last {
            self.choices.taken = best.1;
            self.run(ground);
        }
    }

    /// The next combination; false after the last.
    fn next_choices(&mut self) -> bool {
        let c = &mut self.choices;
        while c.len > 0 {
            let i = c.len - 1;
            if c.taken[i] + 1 < c.of[i] {
                c.taken[i] += 1;
                c.taken[i + 1..].fill(0);
                return true;
            }
            c.taken[i] = 0;
            c.len -= 1;
        }
        false
    }

    /// Goes through the set with the choices as they are.
    fn run(&mut self, ground: &impl Ground) {
        self.sketch(ground);
        self.done[..self.len].fill(false);
        self.late[..self.len].fill(0);
        self.owed.clear();
        self.order_len = 0;
        self.choices.len = 0;
        self.against = 0;
        self.pair();
        for i in 0..self.len {
            self.take(ground, i, 0);
        }
    }

    /// Finds the unmapping of the old place that each move tells of behind itself, if it does.
    fn pair(&mut self) {
        self.own[..self.len].fill(None);
        for j in 0..self.len {
            if self.msgs[j].event != event::UNMAP {
                continue;
            }
            let of = (0..j).filter(|i| self.pairs(*i, j)).count();
            if of > 0 {
                let taken = if of > 1 { self.choose(of) } else { 0 };
                // The last is likely: what left the place before it most likely said so before.
                if let Some(i) = (0..j).rev().filter(|i| self.pairs(*i, j)).nth(taken) {
                    (self.own[i], self.own[j]) = (Some(j), Some(i));
                }
            }
        }
    }

    fn pairs(&self, i: usize, j: usize) -> bool {
        let (m, u) = (self.msgs[i], self.msgs[j]);
        let source = m.arg0 == u.arg0 && m.arg0.wrapping_add(m.arg2) == u.arg1;
        let kinds = m.event == event::REMAP && u.event == event::UNMAP;
        kinds && source && self.own[i].is_none()
    }

    /// What is there before the set, of all that the set speaks of.
    fn sketch(&mut self, ground: &impl Ground) {
        self.parts.clear();
        for i in 0..self.len {
            let m = self.msgs[i];
            match m.event {
                event::REMAP => {
                    self.sketch_range(ground, m.arg0, m.arg0 + m.arg2);
                    self.sketch_range(ground, m.arg1, m.arg1 + m.arg2);
                }
                event::UNMAP => self.sketch_range(ground, m.arg0, m.arg1),
                _ => {}
            }
        }
    }

    fn sketch_range(&mut self, ground: &impl Ground, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let (from, to) = ground.known(at, end);
            if from >= to {
                return;
            }
            self.parts.add(from, to);
            at = to;
        }
    }

    /// Takes message `i`, and before it those that must go first.
    fn take(&mut self, ground: &impl Ground, i: usize, depth: usize) {
        if self.done[i] {
            return;
        }
        self.done[i] = true;
        let m = self.msgs[i];
        match m.event {
            event::REMAP => self.relocate(ground, i, depth),
            event::UNMAP if self.own[i].is_none() => self.unmap(i),
            event::REMOVE => self.parts.forget(m.arg0, m.arg1),
            _ => {}
        }
        self.order[self.order_len] = u16::try_from(i).unwrap_or_default();
        self.order_len += 1;
    }

    fn relocate(&mut self, ground: &impl Ground, i: usize, depth: usize) {
        let m = self.msgs[i];
        self.make_room(ground, i, depth);
        self.count_races(i, m.arg0, m.arg0 + m.arg2);
        let whole = self.parts.shift(m.arg0, m.arg1, m.arg2, i);
        if ground.complete() && !whole {
            self.against += NO_SOURCE;
        }
        if self.own[i].is_none() {
            self.parts.add_empty(m.arg0, m.arg0 + m.arg2);
        }
    }

    /// Whoever came to a place has not returned before its own unmapping was read, and nobody who
    /// keeps from races takes away before that what came. And that somebody does so before those
    /// who were there have told that they left takes a thread that is kept for long.
    fn count_races(&mut self, j: usize, start: u64, end: u64) {
        let here = self.parts.iter().filter(|p| p.start < end && p.end > start);
        let (mut races, mut soon) = (false, false);
        for i in here.filter_map(|p| p.came) {
            races |= self.own[i].is_some_and(|own| own > j);
            soon |= self.late[i] > j;
        }
        self.against += RACE * u32::from(races) + SOON * u32::from(soon);
    }

    /// Empties what was unmapped, but for what came after those who owed this unmapping.
    fn unmap(&mut self, j: usize) {
        let (mut at, end) = (self.msgs[j].arg0, self.msgs[j].arg1);
        while at < end {
            let (from, to) = self.owed.first(j, at, end);
            self.count_races(j, at, from);
            self.parts.cut(at, from);
            at = to.max(from);
        }
    }

    fn make_room(&mut self, ground: &impl Ground, i: usize, depth: usize) {
        let m = self.msgs[i];
        let mut explains = None;
        self.make_room_for_unknown(ground, i, depth);
        while let Some((start, end)) = self.parts.first(m.arg1, m.arg1 + m.arg2) {
            // As far as one unmapping explains that its owner has left, or up to where one does.
            let (unmapping, end) = self.unmapping(start, end);
            let departures = self.departures(start, end).count();
            let explained = unmapping.is_some();
            let stay = if explained { 0 } else { departures };
            let option = if depth == DEPTH_MAX || departures == 0 || self.parts.overflow() {
                stay
            } else {
                // To leave it as it is comes first where an unmapping explains it, else last.
                self.choose(departures + 1)
            };
            if option == stay {
                match unmapping {
                    Some(j) => {
                        self.owed.add(j, start, end);
                        self.late[i] = self.late[i].max(j);
                        explains = explains.or(Some(j));
                    }
                    None => self.against += NEVER_LEFT,
                }
                self.parts.cut(start, end);
            } else {
                let n = option - usize::from(explained);
                let Some(j) = self.departures(start, end).nth(n) else {
                    continue;
                };
                self.late[i] = self.late[i].max(j);
                self.take(ground, j, depth + 1);
            }
        }
        if let Some(j) = explains {
            self.owe_rest(j, m.arg1, m.arg1 + m.arg2);
        }
    }

    /// An unmapping that was before what came to a part of a range was before what came to any of it,
    /// also where it unmapped what nothing is known of.
    fn owe_rest(&mut self, j: usize, start: u64, end: u64) {
        let end = end.min(self.msgs[j].arg1);
        let mut at = start.max(self.msgs[j].arg0);
        while at < end {
            let (from, to) = self.owed.first(j, at, end);
            if from > at {
                self.owed.add(j, at, from);
            }
            at = to.max(from);
        }
    }

    /// A place of which nothing is known may be taken, by what was not registered, or registered
    /// unknown to us. If something leaves it later, or it is unmapped, that may go first; the end tells.
    fn make_room_for_unknown(&mut self, ground: &impl Ground, i: usize, depth: usize) {
        let m = self.msgs[i];
        let (to, end) = (m.arg1, m.arg1 + m.arg2);
        if self.parts.first(to, end).is_some() || depth == DEPTH_MAX {
            return;
        }
        let departures = self.departures(to, end).count();
        let unmappings = self.unmappings(to, end).count();
        if departures + unmappings == 0 {
            return;
        }
        let Some(n) = self.choose(1 + departures + unmappings).checked_sub(1) else {
            return;
        };
        let (departure, unmapping) = match n.checked_sub(departures) {
            Some(n) => (None, self.unmappings(to, end).nth(n)),
            None => (self.departures(to, end).nth(n), None),
        };
        if let Some(j) = unmapping {
            self.owe_rest(j, to, end);
            self.late[i] = self.late[i].max(j);
        }
        if let Some(j) = departure {
            self.take(ground, j, depth + 1);
        }
    }

    /// The unmappings that are not taken and of no move of their own.
    fn free_unmappings(&self) -> impl Iterator<Item = usize> {
        let free = |&j: &usize| {
            self.msgs[j].event == event::UNMAP && self.own[j].is_none() && !self.done[j]
        };
        (0..self.len).filter(free)
    }

    /// Those of a part of `start..end`, not owed by somebody else there.
    fn unmappings(&self, start: u64, end: u64) -> impl Iterator<Item = usize> {
        self.free_unmappings().filter(move |&j| {
            let u = self.msgs[j];
            let (from, to) = (start.max(u.arg0), end.min(u.arg1));
            from < to && self.owed.first(j, from, to).0 == to
        })
    }

    /// The first unmapping of `start` that is not taken and not owed by somebody else, and how far
    /// it reaches; if there is none, up to where one begins.
    fn unmapping(&self, start: u64, end: u64) -> (Option<usize>, u64) {
        let mut to = end;
        for j in self.free_unmappings() {
            let u = self.msgs[j];
            let (owed, _) = self.owed.first(j, start, u.arg1.min(end).max(start));
            if u.arg0 <= start && u.arg1 > start && owed > start {
                return (Some(j), owed.min(end));
            }
            if u.arg0 > start {
                to = to.min(u.arg0);
            }
        }
        (None, to)
    }

    /// The moves that leave a part of `start..end` and were not taken.
    fn departures(&self, start: u64, end: u64) -> impl Iterator<Item = usize> {
        (0..self.len).filter(move |&j| {
            let m = self.msgs[j];
            let overlaps = m.arg0 < end && m.arg0 + m.arg2 > start;
            !self.done[j] && m.event == event::REMAP && overlaps
        })
    }

    fn choose(&mut self, of: usize) -> usize {
        let c = &mut self.choices;
        if c.len == CHOICES_MAX {
            return 0;
        }
        let i = c.len;
        c.of[i] = u8::try_from(of).unwrap_or(u8::MAX);
        c.len += 1;
        usize::from(c.taken[i]).min(of - 1)
    }

    /// Where what should be there in the end is not, or the other way round.
    fn wrong_end(&self, ground: &impl Ground) -> u32 {
        let wrong = |at: u64| match ground.registered(at, at + PAGE) {
            Some(there) => {
                WRONG_END * u32::from(there != self.parts.first(at, at + PAGE).is_some())
            }
            None => 0,
        };
        let ends = |m: &UffdMsg| match m.event {
            event::REMAP => [
                m.arg0,
                m.arg0 + m.arg2 - PAGE,
                m.arg1,
                m.arg1 + m.arg2 - PAGE,
            ],
            _ => [m.arg0, m.arg0, m.arg1 - PAGE, m.arg1 - PAGE],
        };
        let msgs = self.msgs[..self.len].iter();
        let moves = msgs.filter(|m| matches!(m.event, event::REMAP | event::UNMAP));
        moves.flat_map(ends).map(wrong).sum()
    }

    fn present_where_missing(&self, ground: &impl Ground) -> u32 {
        let moved = self.parts.iter().filter(|p| p.came.is_some() && !p.empty);
        moved
            .map(|p| {
                let from = p.start.wrapping_sub(p.by);
                REFUTED * u32::from(ground.refuted(from, p.start, p.end - p.start))
            })
            .sum()
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan::new()
    }
}
