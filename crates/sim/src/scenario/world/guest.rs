//! A tenant of the simulated machine, and what is counted of it.

use super::worker::Worker;
use crate::scenario::balloon::Host;
use crate::scenario::yardstick::{Touch, Yardstick};
use engine::{FolioId, MemcgId};

/// What is counted of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches.
    pub touches: u64,
    /// Those that faulted.
    pub misses: u64,
    /// Pages that came in.
    pub came: u64,
    /// Pages that went at departure.
    pub unmapped: u64,
    /// Charges that found no room under memory.max.
    pub ooms: u64,
    /// Milliseconds slept for being above memory.high.
    pub throttled: u64,
    /// Pages taken, as counted when it departed.
    pub pgsteal: u64,
    /// Pages that came back.
    pub refaults: u64,
    /// Resident pages when it was looked at last.
    pub resident: u64,
    /// Pages in its balloon then.
    pub balloon: u64,
}

/// A tenant.
pub struct Guest {
    /// Place of its `[[tenant]]` in the file.
    pub group: usize,
    /// Where it is, while it is there.
    pub memcg: Option<MemcgId>,
    /// What was counted.
    pub counts: Counts,
    /// Its memory, where the policy is none of the engine's.
    pub(super) yardstick: Option<Yardstick>,
    pub(super) host: Option<Host>,
    pub(super) workers: Vec<Worker>,
    pub(super) arrive: u64,
    pub(super) depart: Option<u64>,
    pub(super) sleeps_until: u64,
}

impl Guest {
    /// A touch where there is a yardstick; false where there is none.
    pub(super) fn touch_yardstick(&mut self, folio: FolioId) -> bool {
        let Some(yardstick) = &mut self.yardstick else {
            return false;
        };
        let touch = yardstick.touch(folio);
        let counts = &mut self.counts;
        counts.misses += u64::from(touch != Touch::Hit);
        counts.came += u64::from(touch != Touch::Hit);
        counts.refaults += u64::from(touch == Touch::Again);
        counts.resident = yardstick.held();
        counts.pgsteal = counts.came - counts.unmapped - counts.resident;
        true
    }

    /// Its time is over at `now`.
    pub(super) fn is_gone(&self, now: u64) -> bool {
        self.depart.is_some_and(|depart| depart <= now)
    }
}
