//! Updates the family from a listing of its control group, if events report everything except moves
//! between groups.
//!
//! Invariant: a member that is still listed is the same process, unless an event reported its end.
//! So idle processes need not be read, however many there are.

use std::collections::HashSet;

use super::{Changes, Family};
use crate::system::error::Error;

impl Family {
    /// Adds listed processes that are not yet members, and removes members that are not listed.
    /// Events must have been complete since the last full update.
    pub(super) fn check_listed(
        &mut self,
        listed: Option<Vec<u32>>,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        let pids = self.pids(listed)?;
        let listed: HashSet<u32> = pids.iter().copied().collect();
        // If the first thread of a process ended before the others, no event reports the end of the
        // process.
        let maybe_ended: Vec<u32> = self.headless.iter().copied().collect();
        let maybe_ended = self.see(&maybe_ended)?;
        let is_same = |pid: u32, family: &Family| {
            let member = family.members.get(&pid);
            let stat = maybe_ended.get(&pid);
            member.is_some_and(|member| stat.is_some_and(|one| one.identity() == member.identity))
        };
        for pid in self.members.keys().copied().collect::<Vec<_>>() {
            let is_known = !self.headless.contains(&pid) || is_same(pid, self);
            if !(listed.contains(&pid) && is_known) {
                self.handle_missing(pid, changes)?;
            }
        }
        let is_new = |pid: &u32| !self.members.contains_key(pid) && !self.excluded.contains(pid);
        let new: Vec<u32> = pids.into_iter().filter(is_new).collect();
        let new = self.see(&new)?;
        self.admit_all(new.values(), changes);
        self.forget_moved();
        Ok(())
    }
}
