//! What the keeper knows when it works out in which order the moves of a set happened.
//!
//! Invariant: nothing is changed here, and nothing of the set is applied yet.

use super::present;
use super::registered::ask_for;
use super::regs::Regs;
use super::table::{PAGE, Table};
use super::view::{Keeper, View};
use keeper::layout::CHUNK;
use keeper::order::Registered;
use keeper::order::plan::Ground;
use keeper::protocol;
use keeper::word::State;

/// A copy of what is needed, so that the plan can be written meanwhile.
pub(super) struct Sketch {
    own: bool,
    regs: Regs,
    words: Table,
    uffd: i32,
    unreadable: u64,
    /// Installs were cut off by a keeper's death: a page may be present whose word says it is out.
    doubtful: bool,
}

impl Sketch {
    pub(super) fn of(k: &Keeper, view: View) -> Sketch {
        Sketch {
            own: view == View::Own,
            regs: k.regs(),
            words: k.table_of(view),
            uffd: k.uffd_of(view),
            unreadable: super::registered::unreadable(k),
            doubtful: k.died_installing != (0, 0),
        }
    }

    /// The first run of pages of a child of which something is known.
    fn known_of_child(&self, start: u64, end: u64) -> (u64, u64) {
        let known = |at: u64| self.words.state_at(at).state() != State::None;
        let mut at = start;
        while at < end && !known(at) {
            at = match self.words.chunk(at) {
                Some(_) => at + PAGE,
                None => (at / CHUNK + 1) * CHUNK,
            };
        }
        let from = at.min(end);
        while at < end && known(at) {
            at += PAGE;
        }
        (from, at.min(end))
    }

    /// A present page that is not out, or is of another mapping, says nothing.
    fn page_refutes(&self, from: u64, to: u64) -> bool {
        !protocol::movable(self.words.state_at(from))
            && ask_for(self.uffd, self.unreadable, to, to + PAGE) == Registered::Yes
    }
}

impl Ground for Sketch {
    fn known(&self, start: u64, end: u64) -> (u64, u64) {
        if !self.own {
            return self.known_of_child(start, end);
        }
        let from = self.regs.next_from(start).min(end);
        (
            from,
            self.regs.around(from).map_or(end, |(_, e)| e.min(end)),
        )
    }

    fn complete(&self) -> bool {
        self.own
    }

    fn registered(&self, start: u64, end: u64) -> Option<bool> {
        match ask_for(self.uffd, self.unreadable, start, end) {
            Registered::Yes => Some(true),
            Registered::No => Some(false),
            Registered::Changing | Registered::Gone => None,
        }
    }

    fn refuted(&self, from: u64, to: u64, len: u64) -> bool {
        let mut refuted = false;
        if self.own && !self.doubtful {
            present::runs(to, to + len, |start, end| {
                let mut at = start;
                while at < end && !refuted {
                    refuted = self.page_refutes(from + (at - to), at);
                    at += PAGE;
                }
            });
        }
        refuted
    }
}
