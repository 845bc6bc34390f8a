//! The watched address spaces: which are alive, and how far each has been read.
//!
//! Invariant: an index is given out again only after no record names it. `mark` counts readings: a
//! record whose mark is its owner's was seen in the owner's last reading. Two bits are enough, for a
//! record that a reading missed is taken over or forgotten at the next look or end of a round.
//! Who sleeps and has seen frames of an owner that has lost such frames since is due: it is to be read,
//! for these may be its own now.

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
    /// Somebody has seen frames of its.
    shown: bool,
    /// It has lost such a frame in this round.
    lost: bool,
    /// Somebody who is skipped in the round that ends has seen frames of its.
    awaited: bool,
    /// It is to be read the next time.
    due: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: Vec<Mm>,
    /// By owner, the others whose frames its last reading saw, the one seen last at the end.
    sees: Vec<Vec<u16>>,
    /// Whether any has lost frames that others have seen, in this round.
    some_lost: bool,
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
            shown: false,
            lost: false,
            awaited: false,
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

    /// It owns nothing more from now on.
    pub(super) fn remove(&mut self, owner: Owner) {
        let mm = &mut self.all[owner.index()];
        assert_eq!(mm.state, State::Alive, "removed once");
        mm.state = State::Leaving;
        mm.skipped = NEVER;
        self.sees[owner.index()] = Vec::new();
        self.lose(owner.0);
        self.call_sharers();
    }

    /// The reader sees a frame that is another's.
    #[inline]
    pub(super) fn note_sharing(&mut self, reader: u16, owner: u16) {
        let sees = &mut self.sees[usize::from(reader)];
        if sees.last() == Some(&owner) {
            return;
        }
        // Neighbours mostly have the same owner: it is found at once the next time.
        match sees.iter().position(|seen| *seen == owner) {
            Some(at) => {
                let last = sees.len() - 1;
                sees.swap(at, last);
            }
            None => sees.push(owner),
        }
        self.all[usize::from(owner)].shown = true;
    }

    /// A frame that others have seen is this one's no more.
    #[inline]
    pub(super) fn lose(&mut self, owner: u16) {
        let mm = &mut self.all[usize::from(owner)];
        mm.lost = mm.shown;
        self.some_lost |= mm.shown;
    }

    /// Whoever has seen frames of one that lost some is due.
    pub(super) fn call_sharers(&mut self) {
        if !std::mem::take(&mut self.some_lost) {
            return;
        }
        for (at, sees) in self.sees.iter().enumerate() {
            let has_lost = |owner: &u16| self.all[usize::from(*owner)].lost;
            if sees.iter().any(has_lost) {
                self.all[at].due = true;
            }
        }
        self.all.iter_mut().for_each(|mm| mm.lost = false);
        debug_assert!(self.all.iter().all(|mm| !mm.lost));
    }

    /// Whether it is to be read though it slept.
    pub(super) fn is_due(&self, owner: Owner) -> bool {
        self.all.get(owner.index()).is_some_and(|mm| mm.due)
    }

    /// Whether somebody who is skipped in the round that ends may map a frame of its that others have seen.
    #[inline]
    pub(super) fn is_awaited(&self, owner: u16) -> bool {
        self.all[usize::from(owner)].awaited
    }

    /// Whether this round has begun to read it.
    #[inline]
    pub(super) fn was_read(&self, owner: u16, now: u32) -> bool {
        self.all[usize::from(owner)].read == now
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
            mm.due = false;
            self.sees[owner.index()].clear();
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

    /// All were looked at: who was neither skipped nor seen to map anything was read and maps nothing.
    pub(super) fn end_readings(&mut self, now: u32) {
        for (mm, sees) in self.all.iter_mut().zip(&mut self.sees) {
            mm.awaited = false;
            if mm.state == State::Alive && mm.read != now && mm.skipped != now {
                mm.mark = (mm.mark + 1) & 3;
                mm.due = false;
                sees.clear();
            }
        }
        for (at, sees) in self.sees.iter().enumerate() {
            if self.all[at].skipped == now {
                for owner in sees {
                    self.all[usize::from(*owner)].awaited = true;
                }
            }
        }
        debug_assert!(self.all.iter().all(|mm| mm.mark < 4));
    }

    /// The round ends. Numbers of removed ones that own nothing are free.
    pub(super) fn end_round(&mut self, owns_nothing: impl Fn(usize) -> bool) {
        self.call_sharers();
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
            (mm.read, mm.skipped) = (NEVER, NEVER);
        }
        debug_assert!(self.all.iter().all(|mm| mm.read == NEVER));
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        let seen: usize = self.sees.iter().map(Vec::capacity).sum();
        self.all.capacity() * size_of::<Mm>()
            + self.sees.capacity() * size_of::<Vec<u16>>()
            + (seen + self.free.capacity()) * size_of::<u16>()
    }
}
