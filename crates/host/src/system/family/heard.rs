//! What events say of a family.
//!
//! Invariant: events are taken in order, so that a pid that was given out again within one reading
//! means first the one process and then the other. Of a process that is only heard of, nothing is
//! known but its number: a look makes it a member, or its end counts it as never seen.

use super::{Changes, Departure, Family, Target};
use crate::system::error::Error;
use crate::system::events::Event;

/// Parent of all threads of the kernel.
const KTHREADD: u32 = 2;

impl Family {
    /// Applies events. Nothing is read but for ends, which may be those of first threads only.
    pub(super) fn hear(&mut self, events: &[Event], changes: &mut Changes) {
        for event in events {
            match *event {
                Event::Fork { parent, child } => self.hear_fork(parent, child),
                Event::Exec { pid } => self.hear_exec(pid, changes),
                Event::Exit { pid, status } => self.hear_exit(pid, status, changes),
                // Users, sessions and names change nothing: a member is one by descent or group.
                Event::Uid { .. } | Event::Session { .. } | Event::Comm { .. } => {}
            }
        }
    }

    /// Whether children of `parent` belong here.
    fn is_heir(&self, parent: u32) -> bool {
        match self.target {
            // Helpers that the kernel starts are its threads until they exec.
            Target::All => parent != KTHREADD,
            // Those that are left out may be descendants all the same, and so are their children.
            Target::Descendants(_) | Target::Group(_) => {
                self.members.contains_key(&parent)
                    || self.heard.contains(&parent)
                    || self.left_kin.contains(&parent)
            }
        }
    }

    fn hear_fork(&mut self, parent: u32, child: u32) {
        // The number was given out again: whoever had it is over, whatever we made of its end.
        if self.heard.remove(&child) {
            self.count_unseen();
        }
        let known = self.members.contains_key(&child) || self.left.contains(&child);
        if self.is_heir(parent) && !known {
            self.heard.insert(child);
        }
    }

    fn hear_exec(&mut self, pid: u32, changes: &mut Changes) {
        if let Some(member) = self.members.get_mut(&pid) {
            // A look may have been faster than its event, and found the new program already.
            let stat = self.proc.stat(pid).ok().flatten();
            let known = stat.is_some_and(|stat| {
                stat.identity() == member.identity && member.stack != 0 && !member.renew(&stat)
            });
            if !known && !changes.execs.contains(&member.identity) {
                changes.execs.push(member.identity);
            }
        } else if self.target == Target::All && !self.left.contains(&pid) {
            self.heard.insert(pid);
        }
    }

    /// The first thread may end before others: the process then lives on without it, or another
    /// thread that execs takes its place.
    fn hear_exit(&mut self, pid: u32, status: u32, changes: &mut Changes) {
        self.left_kin.remove(&pid);
        let member = self.members.get(&pid).map(|member| member.identity);
        if member.is_none() && !self.heard.contains(&pid) {
            // It was moved away since its first thread ended.
            self.headless.remove(&pid);
            return;
        }
        let stat = self
            .proc
            .stat(pid)
            .ok()
            .flatten()
            .filter(|stat| !stat.is_over());
        if stat.is_some_and(|stat| member.is_none_or(|member| member == stat.identity())) {
            self.headless.insert(pid);
        } else if member.is_some() {
            self.dismiss(
                pid,
                Departure::Ended {
                    status: Some(status),
                },
                changes,
            );
        } else {
            self.heard.remove(&pid);
            self.headless.remove(&pid);
            self.count_unseen();
        }
    }

    fn count_unseen(&mut self) {
        self.ended.processes += 1;
        self.ended.unseen += 1;
    }

    /// Looks at those that were heard of, at those whose end makes no event, and at nobody else.
    pub(super) fn check_heard(&mut self, changes: &mut Changes) -> Result<(), Error> {
        for pid in self.headless.iter().copied().collect::<Vec<_>>() {
            let Some(member) = self.members.get(&pid) else {
                continue;
            };
            let stat = match self.proc.stat(pid) {
                Err(error) if error.is_locked() => continue,
                stat => stat?.filter(|stat| !stat.is_over()),
            };
            if stat.is_none_or(|stat| stat.identity() != member.identity) {
                self.dismiss(pid, Departure::Ended { status: None }, changes);
            }
        }
        for pid in self.heard.iter().copied().collect::<Vec<_>>() {
            match self.proc.stat(pid) {
                Ok(Some(stat)) if stat.is_kernel() => {
                    self.heard.remove(&pid);
                }
                Ok(Some(stat)) if !stat.is_over() => self.admit(&stat, changes),
                // Its end is on the way.
                Ok(_) => {}
                Err(error) if error.is_locked() => {
                    self.locked.insert(pid);
                }
                // Hidden from us (hidepid): heard of, and no more.
                Err(error) if error.is_denied() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
