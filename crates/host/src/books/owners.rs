//! The watched address spaces: which are alive, and how far each has been read.
//!
//! Invariant: an index is given out again only after no record names it. `mark` counts readings: a
//! record whose mark is its owner's was seen in the owner's last reading. Two bits are enough, for a
//! record that a reading missed is taken over or forgotten at the next look or end of a round.

use super::frames::NEVER;

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
    /// The last round that read it, and the last that skipped it.
    read: u32,
    skipped: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: Vec<Mm>,
    /// Numbers that are free.
    free: Vec<u16>,
}

impl Owners {
    /// A free number.
    pub(super) fn add(&mut self) -> Option<Owner> {
        let new = Mm {
            state: State::Alive,
            mark: 0,
            read: NEVER,
            skipped: NEVER,
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
            None => self.all.push(new),
        }
        debug_assert!(self.is_alive(owner.0));
        Some(owner)
    }

    /// It owns nothing more from now on.
    pub(super) fn remove(&mut self, owner: Owner) {
        let mm = &mut self.all[owner.index()];
        assert_eq!(mm.state, State::Alive, "removed once");
        mm.state = State::Leaving;
        mm.skipped = NEVER;
    }

    /// It is not read in this round.
    pub(super) fn skip(&mut self, owner: Owner, now: u32) {
        assert!(self.is_alive(owner.0), "only what is there is skipped");
        self.all[owner.index()].skipped = now;
    }

    /// It is read in this round: the mark of this reading.
    pub(super) fn read(&mut self, owner: Owner, now: u32) -> u8 {
        assert!(self.is_alive(owner.0), "only what is there is read");
        let mm = &mut self.all[owner.index()];
        if mm.read != now {
            mm.read = now;
            mm.mark = (mm.mark + 1) & 3;
        }
        mm.mark
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

    /// Whether its records stay though nobody saw them in this round.
    #[inline]
    pub(super) fn is_skipped(&self, owner: u16, now: u32) -> bool {
        self.all[usize::from(owner)].skipped == now
    }

    /// The round ends: who was neither skipped nor seen to map anything was read and maps nothing.
    /// Numbers of removed ones that own nothing are free.
    pub(super) fn end_round(&mut self, now: u32, owns_nothing: impl Fn(usize) -> bool) {
        for (at, mm) in self.all.iter_mut().enumerate() {
            match mm.state {
                State::Alive if mm.read != now && mm.skipped != now => mm.mark = (mm.mark + 1) & 3,
                State::Leaving if owns_nothing(at) => {
                    mm.state = State::Free;
                    self.free.extend(u16::try_from(at));
                }
                _ => {}
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
            (mm.read, mm.skipped) = (NEVER, NEVER);
        }
        debug_assert!(self.all.iter().all(|mm| mm.read == NEVER));
    }

    /// Bytes on the heap.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Mm>() + self.free.capacity() * size_of::<u16>()
    }
}
