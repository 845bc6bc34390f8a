//! A tenant of the simulated machine, and what is counted of it.

use super::worker::{Worker, workers};
use crate::minder::Minder;
use crate::rng::Rng;
use crate::scenario::balloon::Host;
use crate::scenario::file::File;
use crate::scenario::hierarchy::Hierarchy;
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
    /// Milliseconds that its works slept for being above memory.high.
    pub throttled: u64,
    /// Pages taken, as counted when it departed.
    pub pgsteal: u64,
    /// Pages that came back.
    pub refaults: u64,
    /// Resident pages when it was looked at last.
    pub resident: u64,
    /// Pages in its balloon then.
    pub balloon: u64,
    /// Pages that left by its policy.
    pub evicted: u64,
}

impl Counts {
    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        self.touches += other.touches;
        self.misses += other.misses;
        self.came += other.came;
        self.unmapped += other.unmapped;
        self.ooms += other.ooms;
        self.throttled += other.throttled;
        self.pgsteal += other.pgsteal;
        self.refaults += other.refaults;
        self.resident += other.resident;
        self.balloon += other.balloon;
        self.evicted += other.evicted;
    }
}

/// A tenant.
pub struct Guest {
    /// Place of its `[[tenant]]` in the file.
    pub group: usize,
    /// Whom it is below: a place among all guests, before its own. None: the root.
    pub parent: Option<usize>,
    /// Where it is, while it is there.
    pub memcg: Option<MemcgId>,
    /// What was counted.
    pub counts: Counts,
    /// Pages taken from it and from all below it, as memory.stat says.
    pub pgsteal: u64,
    /// Its memory, where the policy is none of the engine's.
    pub(super) yardstick: Option<Yardstick>,
    pub(super) host: Option<Host>,
    /// Its policy, while it is there.
    pub(super) minder: Option<Minder>,
    pub(super) workers: Vec<Worker>,
    pub(super) arrive: u64,
    pub(super) depart: Option<u64>,
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

/// All tenants of a file, parents before those below them.
pub(super) fn guests(file: &File, tree: &Hierarchy) -> Vec<Guest> {
    let mut guests: Vec<Guest> = Vec::new();
    for &group in tree.order() {
        let tenant = file.tenant[group].get_ref();
        let above: Vec<Option<usize>> = match tree.parent(group) {
            None => vec![None],
            Some(parent) => {
                let places = (0..guests.len()).filter(|&n| guests[n].group == parent);
                places.map(Some).collect()
            }
        };
        let (arrive, depart) = tree.stay(group);
        for parent in above {
            for _ in 0..tenant.count {
                let stream = Rng::stream(file.run.seed, 1 + guests.len() as u64).next_u64();
                let works = tenant.work.iter().map(|work| work.get_ref().clone());
                guests.push(Guest {
                    group,
                    parent,
                    memcg: None,
                    counts: Counts::default(),
                    pgsteal: 0,
                    yardstick: Yardstick::new(file.run.policy, tenant),
                    host: None,
                    minder: None,
                    workers: workers(works, stream),
                    arrive,
                    depart,
                });
            }
        }
    }
    guests
}
