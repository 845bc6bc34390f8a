//! In which order the moves of a set of events happened.
//!
//! Events are read in the order in which threads came to announce them. That is another one than
//! that of the calls only where the kernel has given a place away again before its former owner
//! announced that it had left: then a move to a place is read before the move from there. So a set is
//! gone through as it was read, and a move to a place that is taken may be put behind a later move
//! from there. Which one, or none, is tried out on a sketch of the address space. What a choice
//! makes impossible counts against it: a move from where nothing, or not one mapping, is; a move to
//! a place whose owner never left; a page that is present where its bytes should be missing, for
//! they are with us and nothing was installed meanwhile. The choice with the least against it
//! wins, the first of equals.
//!
//! Invariant: the order is a permutation of the set, and that of reading where nothing is in
//! conflict.

mod parts;
#[cfg(test)]
mod tests;

use crate::layout::ctl::QUEUE_MAX;
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

/// What counts against an order.
const NO_SOURCE: u32 = 1;
const NEVER_LEFT: u32 = 2;
const REFUTED: u32 = 4;

/// What is known besides the events.
pub trait Ground {
    /// The first part of `start..end` where something registered is, before the set; empty at `end`
    /// if there is none.
    fn known(&self, start: u64, end: u64) -> (u64, u64);
    /// Whether all that is registered is known: for a forked child only what is out is.
    fn complete(&self) -> bool;
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
    done: [bool; QUEUE_MAX],
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
            done: [false; QUEUE_MAX],
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

    /// The `n`th message to be applied, once the order is worked out.
    #[must_use]
    pub fn nth(&self, n: usize) -> UffdMsg {
        self.msgs[usize::from(self.order[n % QUEUE_MAX]) % QUEUE_MAX]
    }

    /// Works out the order of the messages that were added.
    pub fn work_out(&mut self, ground: &impl Ground) {
        self.choices.taken = [0; CHOICES_MAX];
        let mut best = (u32::MAX, [0; CHOICES_MAX]);
        for _ in 0..(STEPS_MAX / self.len.max(1)).clamp(1, TRIES_MAX) {
            self.run(ground);
            if self.choices.len > 0 {
                self.against += self.present_where_missing(ground);
            }
            if self.against < best.0 {
                best = (self.against, self.choices.taken);
            }
            if best.0 == 0 || !self.next_choices() {
                break;
            }
        }
        if self.choices.taken != best.1 {
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
        self.done = [false; QUEUE_MAX];
        self.order_len = 0;
        self.choices.len = 0;
        self.against = 0;
        for i in 0..self.len {
            self.take(ground, i, 0);
        }
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
            event::REMAP => {
                self.make_room(ground, i, depth);
                let whole = self.parts.shift(m.arg0, m.arg1, m.arg2);
                if ground.complete() && !whole {
                    self.against += NO_SOURCE;
                }
            }
            // Of what has come in this set it is not known whether it is meant.
            event::UNMAP => self.parts.cut(m.arg0, m.arg1, false),
            _ => {}
        }
        self.order[self.order_len] = u16::try_from(i).unwrap_or_default();
        self.order_len += 1;
    }

    fn make_room(&mut self, ground: &impl Ground, i: usize, depth: usize) {
        let m = self.msgs[i];
        let (to, end) = (m.arg1, m.arg1 + m.arg2);
        while self.parts.taken(to, end) && !self.parts.overflow() {
            let explained = self.unmapped_besides(to, end);
            let first = |n: usize| self.departure(i, to, end, n);
            let departures = (0..).take_while(|&n| first(n).is_some()).count();
            if depth == DEPTH_MAX || departures == 0 {
                self.against += if explained { 0 } else { NEVER_LEFT };
                return;
            }
            // To leave it as it is comes first where an unmapping explains it, else last.
            let option = self.choose(departures + 1);
            let stay = if explained { 0 } else { departures };
            if option == stay {
                self.against += if explained { 0 } else { NEVER_LEFT };
                return;
            }
            let Some(j) = self.departure(i, to, end, option - usize::from(explained)) else {
                return;
            };
            self.take(ground, j, depth + 1);
        }
    }

    /// The `n`th move behind `i` that leaves a part of `start..end` and was not taken.
    fn departure(&self, i: usize, start: u64, end: u64, n: usize) -> Option<usize> {
        let leaves = |j: &usize| {
            let m = self.msgs[*j];
            !self.done[*j] && m.event == event::REMAP && m.arg0 < end && m.arg0 + m.arg2 > start
        };
        (i + 1..self.len).filter(leaves).nth(n)
    }

    /// Whether there are more unmappings of `start..end` than the moves from there bring.
    fn unmapped_besides(&self, start: u64, end: u64) -> bool {
        let (mut moves, mut unmaps) = (0, 0);
        for m in &self.msgs[..self.len] {
            match m.event {
                event::REMAP => moves += u32::from(m.arg0 < end && m.arg0 + m.arg2 > start),
                event::UNMAP => unmaps += u32::from(m.arg0 < end && m.arg1 > start),
                _ => {}
            }
        }
        unmaps > moves
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

    fn present_where_missing(&self, ground: &impl Ground) -> u32 {
        let moved = self.parts.iter().filter(|p| p.moved);
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
