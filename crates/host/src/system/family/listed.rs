//! Updates the family from a listing of its control group, if events report everything else.
//!
//! Invariant: only moves between groups have no event. So a member that is still listed is the same
//! process, unless an event reported its end. Idle processes need not be read, however many there
//! are.

use std::collections::HashSet;

use super::{Changes, Family};
use crate::system::error::Error;

impl Family {
    /// Adds processes that are listed and no members, and removes members that are not listed.
    /// Events must have been complete since the last full update.
    pub(super) fn check_listed(
        &mut self,
        listed: Option<Vec<u32>>,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        let pids = self.pids(listed)?;
        let listed: HashSet<u32> = pids.iter().copied().collect();
        // If the first thread ended before others, no event reports the end of the process.
        let doubted: Vec<u32> = self.headless.iter().copied().collect();
        let doubted = self.see(&doubted)?;
        let is_same = |pid: u32, family: &Family| {
            let member = family.members.get(&pid);
            let stat = doubted.get(&pid);
            member.is_some_and(|member| stat.is_some_and(|one| one.identity() == member.identity))
        };
        for pid in self.members.keys().copied().collect::<Vec<_>>() {
            let is_known = !self.headless.contains(&pid) || is_same(pid, self);
            if !(listed.contains(&pid) && is_known) {
                self.miss(pid, changes)?;
            }
        }
        let is_new = |pid: &u32| !self.members.contains_key(pid) && !self.left.contains(pid);
        let new: Vec<u32> = pids.into_iter().filter(is_new).collect();
        let new = self.see(&new)?;
        self.admit_all(new.values(), changes);
        self.forget_moved();
        Ok(())
    }
}
