//! Applies events to a family.
//!
//! Invariant: events are applied in order. So if a pid was reused within one batch, its former
//! process ends before the later one begins. Of a process that only events reported, nothing is
//! known but its pid. The next update makes it a member. If it ends before that, it is counted as
//! never read ([`super::Ended::unseen`]).

use super::{Changes, Departure, Family, Target};
use crate::system::error::Error;
use crate::system::events::Event;

/// Pid of kthreadd, the parent of all kernel threads.
const KTHREADD: u32 = 2;

impl Family {
    /// Applies events. Reads a process only after an exec, and after an exit, as maybe only its
    /// first thread has ended.
    pub(super) fn apply_events(&mut self, events: &[Event], changes: &mut Changes) {
        for event in events {
            match *event {
                Event::Fork { parent, child } => self.apply_fork(parent, child),
                Event::Exec { pid } => self.apply_exec(pid, changes),
                Event::Exit { pid, status } => self.apply_exit(pid, status, changes),
                // A new user, session or name changes nothing: membership depends on descent or
                // control group.
                Event::Uid { .. } | Event::Session { .. } | Event::Comm { .. } => {}
            }
        }
    }

    /// Returns whether children of `parent` may be members.
    fn may_pass_membership(&self, parent: u32) -> bool {
        match self.target {
            // The kernel starts helper programs as kernel threads, which become ordinary processes
            // by an exec.
            Target::All => parent != KTHREADD,
            // Children of a descendant are members even if the descendant itself is excluded (this
            // process).
            Target::Descendants(_) | Target::Group(_) => {
                self.members.contains_key(&parent)
                    || self.known_by_events.contains(&parent)
                    || self.excluded_kin.contains(&parent)
            }
        }
    }

    /// Records a child that may be a member, for the next update to read.
    fn apply_fork(&mut self, parent: u32, child: u32) {
        // The kernel reused the pid, so its former process has ended.
        if self.known_by_events.remove(&child) {
            self.count_unseen();
        }
        let known = self.members.contains_key(&child) || self.excluded.contains(&child);
        if self.may_pass_membership(parent) && !known {
            self.known_by_events.insert(child);
        }
    }

    /// Records that a member runs another program, unless an update has found that already.
    fn apply_exec(&mut self, pid: u32, changes: &mut Changes) {
        if let Some(member) = self.members.get_mut(&pid) {
            // An update may have read the process after the exec and before its event.
            let stat = self.proc.stat(pid).ok().flatten();
            let known = stat.is_some_and(|stat| {
                stat.identity() == member.identity && member.stack != 0 && !member.renew(&stat)
            });
            if !known && !changes.execs.contains(&member.identity) {
                changes.execs.push(member.identity);
            }
        } else if self.target == Target::All && !self.excluded.contains(&pid) {
            self.known_by_events.insert(pid);
        }
    }

    /// Handles the end of a process's first thread. If the process has other threads, it lives on.
    /// (A thread that calls exec becomes the first thread.)
    fn apply_exit(&mut self, pid: u32, status: u32, changes: &mut Changes) {
        self.excluded_kin.remove(&pid);
        let member = self.members.get(&pid).map(|member| member.identity);
        if member.is_none() && !self.known_by_events.contains(&pid) {
            // The process was moved to another group, and then its first thread ended.
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
            self.known_by_events.remove(&pid);
            self.headless.remove(&pid);
            self.count_unseen();
        }
    }

    /// Counts a process that ended before any update read it.
    fn count_unseen(&mut self) {
        self.ended.processes += 1;
        self.ended.unseen += 1;
    }

    /// Updates the family if events are complete: reads only processes that events reported, and
    /// members whose end no event reports.
    pub(super) fn update_by_events(&mut self, changes: &mut Changes) -> Result<(), Error> {
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
        for pid in self.known_by_events.iter().copied().collect::<Vec<_>>() {
            match self.proc.stat(pid) {
                Ok(Some(stat)) if stat.is_kernel() => {
                    self.known_by_events.remove(&pid);
                }
                Ok(Some(stat)) if !stat.is_over() => self.admit(&stat, changes),
                // The process has ended; an event will report that.
                Ok(_) => {}
                Err(error) if error.is_locked() => {
                    self.locked.insert(pid);
                }
                // `/proc` hides the process from us (hidepid), so only events report it.
                Err(error) if error.is_denied() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
