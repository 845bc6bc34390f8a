//! Processes that a scan does not walk, and the cost of walking the others.
//!
//! Invariant: the ages of a postponed process stay as of its last walk, and are not reported as
//! older. Of a process whose pages do not fit into the memory limit, nothing is known.

use std::time::Duration;

use super::Ages;
use super::age_memory::{Candidate, Size};
use crate::age_table::Owner;
use crate::system::Identity;

impl Ages {
    /// Returns the time as of which the ages of this owner's pages are known, in milliseconds. This
    /// is the last scan, or an earlier one if the process was postponed ([`Ages::postpone`]).
    #[must_use]
    pub fn known_ms(&self, owner: Owner) -> u64 {
        self.known_ms.get(owner.index()).copied().unwrap_or(0)
    }

    /// Records that the ages of this owner's pages are known as of this scan.
    pub(super) fn note_known(&mut self, owner: Owner) {
        let at = owner.index();
        if self.known_ms.len() <= at {
            self.known_ms.resize(at + 1, 0);
        }
        self.known_ms[at] = self.age_table.last_scan_ms();
    }

    /// Excludes a process from this scan, even if it has run: its ages stay as of its last walk.
    pub fn postpone(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get(&identity) {
            self.read.insert(space.id);
            self.age_table.postpone(space.owner);
        }
    }

    /// Returns the processor time that walking a process has cost in this scan.
    #[must_use]
    pub fn cost_of(&self, identity: Identity) -> Duration {
        let mut costs = self.took.iter().rev();
        let found = costs.find(|(one, _)| *one == identity);
        found.map_or(Duration::ZERO, |(_, cost)| *cost)
    }

    /// Returns the processor time of each walk in this scan, including walks of processes that have
    /// ended since. A second call returns nothing.
    pub fn take_costs(&mut self) -> Vec<(Identity, Duration)> {
        std::mem::take(&mut self.took)
    }

    /// Limits the memory for ages, in bytes; `None` for no limit. If the ages of all processes do
    /// not fit, the largest processes of the largest tenants are not walked (`ages/age_memory.rs`).
    pub fn limit_memory(&mut self, bytes: Option<u64>) {
        self.age_memory.limit(bytes);
    }

    /// Returns the resident pages of a process that the last scan did not walk, as memory for ages
    /// is limited; `None` if it was walked.
    #[must_use]
    pub fn unscanned_pages(&self, identity: Identity) -> Option<u64> {
        self.age_memory.left_out(identity)
    }

    /// Decides, after [`Ages::begin_scan`], which `members` fit into the memory limit. `tenant`
    /// returns the number of a process's tenant.
    pub fn share_memory(&mut self, members: &[Identity], tenant: &dyn Fn(Identity) -> u64) {
        if !self.age_memory.is_limited() {
            return;
        }
        let (age_table, spaces) = (&self.age_table, &self.spaces);
        let swapped: u64 = spaces.values().map(|space| space.found.swapped).sum();
        let known = (age_table.pages() + swapped, spaces.len() as u64);
        self.age_memory.begin(known, || {
            let size = |identity: &Identity| {
                let space = spaces.get(identity);
                Size {
                    identity: *identity,
                    tenant: tenant(*identity),
                    pages: space.map_or(0, |space| {
                        age_table.owned_by(space.owner) + space.found.swapped
                    }),
                }
            };
            members.iter().map(size).collect()
        });
    }

    /// Returns whether the pages of a process that is about to be walked fit into the memory limit.
    pub(super) fn fits_memory_limit(&mut self, identity: Identity, resident: u64) -> bool {
        if !self.age_memory.is_limited() {
            return true;
        }
        let space = self.spaces.get(&identity);
        let candidate = match space.filter(|space| space.was_read()) {
            Some(space) => Candidate {
                resident,
                grown: resident.saturating_sub(space.found.present),
                is_known: true,
            },
            None => Candidate {
                resident,
                grown: resident,
                is_known: false,
            },
        };
        self.age_memory
            .admits(identity, self.age_table.pages(), candidate)
    }
}
