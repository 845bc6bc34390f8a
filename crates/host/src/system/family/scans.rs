//! What a scan of all processes says of a family.
//!
//! Invariant: after a look every member was alive in it, or has its end still to be told by an event;
//! the look after that lets it go. A look is not one moment: processes that
//! change while it goes on may be seen before or after.

use std::collections::{HashMap, HashSet};

use super::descent::{Descent, Share};
use super::{Changes, Departure, Family, Target};
use crate::system::cgroup::Group;
use crate::system::error::Error;
use crate::system::process::Stat;

/// Living processes by their pids.
pub(super) type Seen = HashMap<u32, Stat>;

impl Family {
    /// Looks at all processes that may be members, and takes over what changed.
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
                self.check_home(&seen, &family);
                self.left_kin = family.intersection(&self.left).copied().collect();
                family.into_iter().collect()
            }
        };
        new.retain(|pid| !self.members.contains_key(pid) && !self.left.contains(pid));
        self.admit_all(new.iter().filter_map(|pid| seen.get(pid)), changes);
        self.forget_moved();
        Ok(())
    }

    /// Takes processes in, in the order of their birth, as far as that is known: a report reads better so.
    pub(super) fn admit_all<'a>(
        &mut self,
        new: impl Iterator<Item = &'a Stat>,
        changes: &mut Changes,
    ) {
        let mut new: Vec<&Stat> = new.collect();
        new.sort_by_key(|stat| (stat.started, stat.pid));
        new.into_iter().for_each(|stat| self.admit(stat, changes));
    }

    /// Who was heard of, and is alive and not in the control group: it was moved, and so will its end be elsewhere's.
    pub(super) fn forget_moved(&mut self) {
        let (Target::Group(target), Some(groups)) = (&self.target, &self.groups) else {
            return;
        };
        let proc = &self.proc;
        let is_elsewhere = |pid: u32| match proc.stat(pid) {
            // It may have come after the listing.
            Ok(Some(stat)) if !stat.is_over() => {
                let group = groups.of_process(proc, pid).ok().flatten();
                group.is_none_or(|group| !group.path.starts_with(&target.path))
            }
            _ => false,
        };
        self.heard.retain(|pid| !is_elsewhere(*pid));
    }

    /// All processes that may be members.
    pub(super) fn pids(&self, listed: Option<Vec<u32>>) -> Result<Vec<u32>, Error> {
        match (&self.target, &self.groups) {
            (Target::Group(group), Some(groups)) => match listed {
                Some(pids) => Ok(pids),
                // A group that is gone has nobody.
                None => Ok(groups.processes(group)?.unwrap_or_default()),
            },
            _ => self.proc.pids(),
        }
    }

    /// What the living among them are.
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
                // Hidden from us (hidepid).
                Err(error) if error.is_denied() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }

    /// Renews those that were seen, and lets go of the others.
    fn check_members(&mut self, seen: &Seen, changes: &mut Changes) -> Result<(), Error> {
        for pid in self.members.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&pid) else {
                continue;
            };
            match seen.get(&pid) {
                _ if self.left.contains(&pid) => self.dismiss(pid, Departure::Moved, changes),
                Some(stat) if stat.identity() == member.identity => {
                    if member.renew(stat) && !changes.execs.contains(&member.identity) {
                        changes.execs.push(member.identity);
                    }
                }
                // It is within an exec, and so it lives.
                _ if self.locked.contains(&pid) => {}
                _ => self.miss(pid, changes)?,
            }
        }
        Ok(())
    }

    /// A member was not found.
    pub(super) fn miss(&mut self, pid: u32, changes: &mut Changes) -> Result<(), Error> {
        if self.lives_elsewhere(pid)? {
            self.dismiss(pid, Departure::Moved, changes);
        // Its event is on the way, and says how it ended.
        } else if !(self.covered && self.headless.insert(pid)) {
            self.dismiss(pid, Departure::Ended { status: None }, changes);
        }
        Ok(())
    }

    /// Whether a member that its group does not list is alive.
    fn lives_elsewhere(&self, pid: u32) -> Result<bool, Error> {
        let (Target::Group(_), Some(member)) = (&self.target, self.members.get(&pid)) else {
            return Ok(false);
        };
        let stat = match self.proc.stat(pid) {
            // It is within an exec, and so it lives.
            Err(error) if error.is_locked() => return Ok(true),
            stat => stat?,
        };
        Ok(stat.is_some_and(|stat| stat.identity() == member.identity && !stat.is_over()))
    }

    /// All descendants, by kinship and by what was heard of; those that are left out too.
    fn descendants(&self, descent: &mut Descent, seen: &Seen) -> HashSet<u32> {
        let mut family: HashSet<u32> = self.members.keys().copied().collect();
        family.extend(self.heard.iter().filter(|pid| seen.contains_key(pid)));
        // With events, an orphan of ours is one that was heard of, or will be.
        let ask = !self.covered;
        let share = |pid: u32, family: &HashSet<u32>, asked: &HashSet<u32>| {
            self.share_of_home(pid, |other| {
                let known = seen.contains_key(&other) && !asked.contains(&other);
                known.then(|| family.contains(&other))
            })
        };
        descent.grow(seen, &mut family, ask, &share);
        family
    }

    /// With whom a process shares the control group of the first member; nothing if it is in
    /// another. `ours` is none for those that are in question.
    fn share_of_home(&self, pid: u32, ours: impl Fn(u32) -> Option<bool>) -> Share {
        let (Some(groups), Some(home)) = (&self.groups, &self.home) else {
            return Share::Nothing;
        };
        match groups.of_process(&self.proc, pid) {
            Ok(Some(group)) if group == home.group => {}
            _ => return Share::Nothing,
        }
        let Ok(Some(pids)) = groups.own_processes(&home.group) else {
            return Share::Nothing;
        };
        let others = pids.into_iter().filter(|&other| other != pid);
        if home.ours && others.filter_map(ours).all(|ours| ours) {
            Share::Ours
        } else {
            Share::Mixed
        }
    }

    /// Sees who is in the control group of the first member, for the next look.
    fn check_home(&mut self, seen: &Seen, family: &HashSet<u32>) {
        let (Some(groups), Target::Descendants(root)) = (&self.groups, &self.target) else {
            return;
        };
        if self.home.is_none() {
            let group = groups.of_process(&self.proc, *root).ok().flatten();
            self.home = group.map(|group| Home { group, ours: false });
        }
        let Some(home) = &mut self.home else { return };
        let pids = groups
            .own_processes(&home.group)
            .ok()
            .flatten()
            .unwrap_or_default();
        home.ours = pids
            .iter()
            .all(|pid| family.contains(pid) || !seen.contains_key(pid));
    }
}

/// The control group of the first member.
#[derive(Debug)]
pub(super) struct Home {
    group: Group,
    /// None but members were in it at the last look.
    ours: bool,
}
