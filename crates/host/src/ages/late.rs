//! Processes that a round leaves out, and what reading the others costs.
//!
//! Invariant: the ages of a process that was left out stay as of its last reading, and are never told as older.

use std::time::Duration;

use super::Ages;
use crate::books::Owner;
use crate::system::Identity;

impl Ages {
    /// As of when the ages of this owner's pages are known, milliseconds: the last round, or an earlier one if it is late
    /// ([`Ages::postpone`]).
    #[must_use]
    pub fn known_ms(&self, owner: Owner) -> u64 {
        self.known_ms.get(owner.index()).copied().unwrap_or(0)
    }

    /// The ages of this owner's pages are known as of this round.
    pub(super) fn note_known(&mut self, owner: Owner) {
        let at = owner.index();
        if self.known_ms.len() <= at {
            self.known_ms.resize(at + 1, 0);
        }
        self.known_ms[at] = self.books.last_round_ms();
    }

    /// This process is not read in this round, whatever it did: its ages stay as of its last reading.
    pub fn postpone(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get(&identity) {
            self.read.insert(space.id);
            self.books.postpone(space.owner);
        }
    }

    /// What reading each process has cost in this round, processor time; those that have ended since are among them.
    pub fn take_costs(&mut self) -> Vec<(Identity, Duration)> {
        std::mem::take(&mut self.took)
    }
}
