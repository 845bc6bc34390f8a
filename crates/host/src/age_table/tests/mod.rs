//! Tests of the age table: its rules one by one, all of them against a model, and its costs.

mod measure;
mod naive;
mod property;
mod rules;
mod scattered;
mod sharing;
mod sizes;

use super::{AgeTable, Class, Observation, Owner};

pub(super) const ANON: Class = Class(0);
pub(super) const FILE: Class = Class(1);

/// An observation: the accessed bit is clear, and can be trusted.
pub(super) const OLD: Observation = Observation {
    accessed: false,
    trusted: true,
    hidden: false,
    idle: false,
    kept_bits: false,
};
/// An observation: the page was accessed since the last walk.
pub(super) const YOUNG: Observation = Observation {
    accessed: true,
    ..OLD
};
/// An observation: the accessed bit is set, but no walk has cleared it before.
pub(super) const LEFT: Observation = Observation {
    accessed: true,
    trusted: false,
    ..OLD
};
/// An observation: the accessed bit is clear, but accesses may be hidden.
pub(super) const HIDDEN: Observation = Observation {
    hidden: true,
    ..OLD
};

/// An observation: the bit is set, as at the last walk; the process has been idle since.
pub(super) const IDLE: Observation = Observation {
    idle: true,
    ..YOUNG
};

/// An observation: the bit is set, and the last walk left it uncleared on purpose.
pub(super) const KEPT_BITS: Observation = Observation {
    kept_bits: true,
    ..YOUNG
};

/// An age table that is scanned once a second from time 0, for tests.
pub(super) struct Scans {
    pub(super) age_table: AgeTable,
    now_ms: u64,
}

impl Scans {
    pub(super) fn new() -> Scans {
        Scans {
            age_table: AgeTable::new(0),
            now_ms: 0,
        }
    }

    pub(super) fn owner(&mut self) -> Owner {
        self.age_table.add_owner().unwrap()
    }

    /// Does the next scan with these observations: owner, first frame, number of pages, what was
    /// observed.
    pub(super) fn scan(&mut self, observations: &[(Owner, u64, u32, Observation)]) {
        self.scan_but(&[], observations);
    }

    /// Does the next scan with these observations, and skips the owners in the first list.
    pub(super) fn scan_but(
        &mut self,
        skipped: &[Owner],
        observations: &[(Owner, u64, u32, Observation)],
    ) {
        self.now_ms += 1000;
        self.age_table.begin_scan(self.now_ms);
        for &(owner, frame, pages, observation) in observations {
            self.age_table.see(owner, ANON, frame, pages, observation);
        }
        skipped.iter().for_each(|owner| self.age_table.skip(*owner));
        self.age_table.end_scan();
    }

    /// Returns the pages of an owner accessed again in the last scan: time of the previous access,
    /// number of pages.
    pub(super) fn again(&self, owner: Owner) -> Vec<(u64, u64)> {
        let again = self.age_table.again(owner);
        again.map(|(_, last, pages)| (last, pages)).collect()
    }

    /// Returns an owner's pages of known age, oldest first: age (ms), number of pages.
    pub(super) fn ages(&self, owner: Owner) -> Vec<(u64, u64)> {
        let ages = self.age_table.ages(owner);
        ages.map(|(_, last_ms, pages)| (self.now_ms - last_ms, pages))
            .collect()
    }

    pub(super) fn resident(&self, owner: Owner) -> u64 {
        self.age_table.resident(owner, ANON)
    }

    pub(super) fn unknown(&self, owner: Owner) -> u64 {
        self.age_table.unknown(owner, ANON)
    }

    pub(super) fn reaccessed(&self) -> Vec<(u64, u64)> {
        self.age_table.reaccessed().collect()
    }
}
