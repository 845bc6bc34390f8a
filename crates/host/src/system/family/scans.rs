//! A full update: reads all processes that may be members.
//!
//! Invariant: a member was alive during the last update, or an event will report its end. Processes
//! are read one after the other, so a process that changes meanwhile is read as before or as after
//! the change.

use std::collections::{HashMap, HashSet};

use super::descent::{Descent, Share};
use super::{Changes, Departure, Family, Target};
use crate::system::cgroup::Group;
use crate::system::error::Error;
use crate::system::process::Stat;

/// The living processes that an update read, by pid.
pub(super) type Seen = HashMap<u32, Stat>;

impl Family {
    /// Reads all processes that may be members, and adds and removes members.
    pub(super) fn scan(
        &mut self,
        listed: Option<Vec<u32>>,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        let pids = self.pids(listed)?;
        let seen = self.see(&pids)?;
        self.check_members(&seen, changes)?;
        let mut new: Vec<u32> = match self.descent.take() {
            None => seen.keys().copied().collect(),
            Some(mut descent) => {
                let family = self.descendants(&mut descent, &seen);
                descent.remember(&seen, &family);
                self.descent = Some(descent);
                self.check_first_group(&seen, &family);
                self.excluded_kin = family.intersection(&self.excluded).copied().collect();
                family.into_iter().collect()
            }
        };
        new.retain(|pid| !self.members.contains_key(pid) && !self.excluded.contains(pid));
        self.admit_all(new.iter().filter_map(|pid| seen.get(pid)), changes);
        self.forget_moved();
        Ok(())
    }

    /// Adds processes as members, in the order in which they were started: reports show them in
    /// this order.
    pub(super) fn admit_all<'a>(
        &mut self,
        new: impl Iterator<Item = &'a Stat>,
        changes: &mut Changes,
    ) {
        let mut new: Vec<&Stat> = new.collect();
        new.sort_by_key(|stat| (stat.started, stat.pid));
        new.into_iter().for_each(|stat| self.admit(stat, changes));
    }

    /// Forgets processes that only events reported and that now are in another control group: their
    /// end does not matter here.
    pub(super) fn forget_moved(&mut self) {
        let (Target::Group(target), Some(groups)) = (&self.target, &self.groups) else {
            return;
        };
        let proc = &self.proc;
        let is_elsewhere = |pid: u32| match proc.stat(pid) {
            // A process in the target's group may have been moved there after the listing, so it is
            // kept.
            Ok(Some(stat)) if !stat.is_over() => {
                let group = groups.of_process(proc, pid).ok().flatten();
                group.is_none_or(|group| !group.path.starts_with(&target.path))
            }
            _ => false,
        };
        self.known_by_events.retain(|pid| !is_elsewhere(*pid));
    }

    /// Returns the pids of all processes that may be members.
    pub(super) fn pids(&self, listed: Option<Vec<u32>>) -> Result<Vec<u32>, Error> {
        match (&self.target, &self.groups) {
            (Target::Group(group), Some(groups)) => match listed {
                Some(pids) => Ok(pids),
                // A group that is gone has no processes.
                None => Ok(groups.processes(group)?.unwrap_or_default()),
            },
            _ => self.proc.pids(),
        }
    }

    /// Reads these processes; returns those that are alive and are no kernel threads.
    pub(super) fn see(&mut self, pids: &[u32]) -> Result<Seen, Error> {
        let mut seen = Seen::with_capacity(pids.len());
        for pid in pids.iter().copied() {
            match self.proc.stat(pid) {
                Ok(Some(stat)) if !stat.is_kernel() && !stat.is_over() => {
                    seen.insert(pid, stat);
                }
                Ok(_) => {}
                Err(error) if error.is_locked() => {
                    self.locked.insert(pid);
                }
                // `/proc` hides the process from us (hidepid).
                Err(error) if error.is_denied() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }

    /// Updates the members that were read, and removes all others.
    fn check_members(&mut self, seen: &Seen, changes: &mut Changes) -> Result<(), Error> {
        for pid in self.members.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&pid) else {
                continue;
            };
            match seen.get(&pid) {
                _ if self.excluded.contains(&pid) => self.dismiss(pid, Departure::Moved, changes),
                Some(stat) if stat.identity() == member.identity => {
                    if member.renew(stat) && !changes.execs.contains(&member.identity) {
                        changes.execs.push(member.identity);
                    }
                }
                // An exec of the member does not finish, so the member is alive.
                _ if self.locked.contains(&pid) => {}
                _ => self.handle_missing(pid, changes)?,
            }
        }
        Ok(())
    }

    /// Handles a member that was not found: it was moved, or has ended, or an event will report its
    /// end.
    pub(super) fn handle_missing(&mut self, pid: u32, changes: &mut Changes) -> Result<(), Error> {
        if self.lives_elsewhere(pid)? {
            self.dismiss(pid, Departure::Moved, changes);
        // If events are complete, one of them will report the process's end and exit status.
        } else if !(self.events_complete && self.headless.insert(pid)) {
            self.dismiss(pid, Departure::Ended { status: None }, changes);
        }
        Ok(())
    }

    /// Returns whether a member that is not in the target's control group is still alive.
    fn lives_elsewhere(&self, pid: u32) -> Result<bool, Error> {
        let (Target::Group(_), Some(member)) = (&self.target, self.members.get(&pid)) else {
            return Ok(false);
        };
        let stat = match self.proc.stat(pid) {
            // An exec of the member does not finish, so the member is alive.
            Err(error) if error.is_locked() => return Ok(true),
            stat => stat?,
        };
        Ok(stat.is_some_and(|stat| stat.identity() == member.identity && !stat.is_over()))
    }

    /// Returns the pids of all descendants that parents' pids and events show, including excluded
    /// processes.
    fn descendants(&self, descent: &mut Descent, seen: &Seen) -> HashSet<u32> {
        let mut family: HashSet<u32> = self.members.keys().copied().collect();
        family.extend(
            self.known_by_events
                .iter()
                .filter(|pid| seen.contains_key(pid)),
        );
        // If events are complete, an event has reported each orphan of the family, or will.
        let ask = !self.events_complete;
        let share = |pid: u32, family: &HashSet<u32>, requested: &HashSet<u32>| {
            self.share_of_first_group(pid, |other| {
                let known = seen.contains_key(&other) && !requested.contains(&other);
                known.then(|| family.contains(&other))
            })
        };
        descent.grow(seen, &mut family, ask, &share);
        family
    }

    /// Returns whether the control group of the first member contains only members, if the process
    /// `pid` is in it; `Nothing` if the process is in another group. `ours` returns whether a
    /// process is a member; `None` if that is not known yet.
    fn share_of_first_group(&self, pid: u32, ours: impl Fn(u32) -> Option<bool>) -> Share {
        let (Some(groups), Some(first_group)) = (&self.groups, &self.first_group) else {
            return Share::Nothing;
        };
        match groups.of_process(&self.proc, pid) {
            Ok(Some(group)) if group == first_group.group => {}
            _ => return Share::Nothing,
        }
        let Ok(Some(pids)) = groups.own_processes(&first_group.group) else {
            return Share::Nothing;
        };
        let others = pids.into_iter().filter(|&other| other != pid);
        if first_group.ours && others.filter_map(ours).all(|ours| ours) {
            Share::Ours
        } else {
            Share::Mixed
        }
    }

    /// Records, for the next update, whether the control group of the first member contains only
    /// members.
    fn check_first_group(&mut self, seen: &Seen, family: &HashSet<u32>) {
        let (Some(groups), Target::Descendants(root)) = (&self.groups, &self.target) else {
            return;
        };
        if self.first_group.is_none() {
            let group = groups.of_process(&self.proc, *root).ok().flatten();
            self.first_group = group.map(|group| FirstGroup { group, ours: false });
        }
        let Some(first_group) = &mut self.first_group else {
            return;
        };
        let pids = groups
            .own_processes(&first_group.group)
            .ok()
            .flatten()
            .unwrap_or_default();
        first_group.ours = pids
            .iter()
            .all(|pid| family.contains(pid) || !seen.contains_key(pid));
    }
}

/// The control group of the target's first process.
#[derive(Debug)]
pub(super) struct FirstGroup {
    group: Group,
    /// Whether the group contained only members at the last update.
    ours: bool,
}
