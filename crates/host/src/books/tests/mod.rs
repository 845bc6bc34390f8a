//! The rules one by one, all of them against a model, and what they cost.

mod measure;
mod naive;
mod property;
mod rules;
mod scattered;
mod sharing;
mod sizes;

use super::{Books, Class, Observation, Owner};

pub(super) const ANON: Class = Class(0);
pub(super) const FILE: Class = Class(1);

/// The accessed bit is clear, and says so.
pub(super) const OLD: Observation = Observation {
    accessed: false,
    trusted: true,
    hidden: false,
    slept: false,
    spared: false,
};
/// Accessed since the last reading.
pub(super) const YOUNG: Observation = Observation {
    accessed: true,
    trusted: true,
    hidden: false,
    slept: false,
    spared: false,
};
/// The bit is set, and nobody cleared it before.
pub(super) const LEFT: Observation = Observation {
    accessed: true,
    trusted: false,
    hidden: false,
    slept: false,
    spared: false,
};
/// The bit is clear, and does not say anything.
pub(super) const HIDDEN: Observation = Observation {
    accessed: false,
    trusted: true,
    hidden: true,
    slept: false,
    spared: false,
};

/// The bit is set, and was when its process, which did nothing since, was read last.
pub(super) const SLEPT: Observation = Observation {
    slept: true,
    ..YOUNG
};

/// The bit is set, and stayed as it was at the reading before.
pub(super) const SPARED: Observation = Observation {
    spared: true,
    ..YOUNG
};

/// Books of rounds of one second each, beginning at 0.
pub(super) struct Rounds {
    pub(super) books: Books,
    now_ms: u64,
}

impl Rounds {
    pub(super) fn new() -> Rounds {
        Rounds {
            books: Books::new(0),
            now_ms: 0,
        }
    }

    pub(super) fn owner(&mut self) -> Owner {
        self.books.add_owner().unwrap()
    }

    /// The next round, with these looks: owner, first frame, pages, look.
    pub(super) fn round(&mut self, looks: &[(Owner, u64, u32, Observation)]) {
        self.round_but(&[], looks);
    }

    /// The same, with these owners skipped.
    pub(super) fn round_but(
        &mut self,
        skipped: &[Owner],
        looks: &[(Owner, u64, u32, Observation)],
    ) {
        self.now_ms += 1000;
        self.books.begin_round(self.now_ms);
        for &(owner, frame, pages, look) in looks {
            self.books.see(owner, ANON, frame, pages, look);
        }
        skipped.iter().for_each(|owner| self.books.skip(*owner));
        self.books.end_round();
    }

    /// The times of the accesses before those of the last round, with their pages.
    pub(super) fn again(&self, owner: Owner) -> Vec<(u64, u64)> {
        let again = self.books.again(owner);
        again.map(|(_, last, pages)| (last, pages)).collect()
    }

    /// Ages of an owner's known pages, milliseconds, oldest first.
    pub(super) fn ages(&self, owner: Owner) -> Vec<(u64, u64)> {
        let ages = self.books.ages(owner);
        ages.map(|(_, last_ms, pages)| (self.now_ms - last_ms, pages))
            .collect()
    }

    pub(super) fn resident(&self, owner: Owner) -> u64 {
        self.books.resident(owner, ANON)
    }

    pub(super) fn unknown(&self, owner: Owner) -> u64 {
        self.books.unknown(owner, ANON)
    }

    pub(super) fn reaccessed(&self) -> Vec<(u64, u64)> {
        self.books.reaccessed().collect()
    }
}
