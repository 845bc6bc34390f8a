//! The processes of a target, kept up to date by the kernel's events and by reading `/proc`.
//!
//! Invariant: a member is one [`Identity`]; it is reported as new once and as gone once. Kernel
//! threads and this process are never members. If events are complete, the list of members is
//! exact. Without events, an update misses processes that start and end between two updates. It may
//! also miss descendants whose parents ended in between ([`Family::maybe_missed`]).

mod known_by_events;

// These modules use each other.
mod descent;
mod scans;

mod listed;

use std::collections::{HashMap, HashSet};

use pagetables::access;

use super::cgroup::{Group, Groups};
use super::error::Error;
use super::events::Events;
use super::proc::Proc;
use super::process::{Identity, Stat};
use descent::Descent;
use scans::FirstGroup;

/// Which processes to follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A process with its children, grandchildren and so on, even if they exec or change user,
    /// session or namespace. A member stays a member until it ends.
    Descendants(u32),
    /// The processes in a control group and in the groups below it. A process that is moved to
    /// another group is no longer a member.
    Group(Group),
    /// All processes that `/proc` shows.
    All,
}

/// One process of the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The process.
    pub identity: Identity,
    /// Pid of the parent when the process was last read.
    pub parent: u32,
    /// Name of the process when it was last read, safe for a terminal.
    pub comm: String,
    /// The session and the process group of the process.
    session: u32,
    group: u32,
    /// Address at which the stack of the process began. Each exec chooses another address, so a
    /// change means another program.
    stack: u64,
    /// The largest value passed to [`Family::note_peak`] for this process, bytes.
    peak: u64,
}

/// Why a process is no longer a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// The process ended.
    Ended {
        /// Exit status, as wait(2) reports it; `None` if no event reported it.
        status: Option<u32>,
    },
    /// The process lives on in another control group.
    Moved,
}

/// A process that is no longer a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone {
    /// The process.
    pub identity: Identity,
    /// Why it is no longer a member.
    pub how: Departure,
}

/// The changes that an update found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// New members, in the order in which they were started.
    pub new: Vec<Member>,
    /// Processes that are no longer members.
    pub gone: Vec<Gone>,
    /// Members that run another program now, so that nothing known of their memory is valid.
    /// Without events, an exec is found only if we may see addresses (`PTRACE_MODE_READ`).
    pub execs: Vec<Identity>,
    /// Whether the kernel dropped events since the last update. If so, this update has read all
    /// processes.
    pub lost: bool,
}

/// Counts of the processes that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// Number of processes that ended.
    pub processes: u64,
    /// Number of those that no update ever read: only events reported them.
    pub unseen: u64,
    /// The largest peak of resident memory of a process that ended, in bytes, of the peaks passed
    /// to [`Family::note_peak`].
    pub peak_resident: u64,
    /// Whether events reported all ends, so that the counts are exact.
    pub by_events: bool,
}

/// The processes of a target, by their pids.
#[derive(Debug)]
pub struct Family {
    proc: Proc,
    groups: Option<Groups>,
    target: Target,
    members: HashMap<u32, Member>,
    /// Processes that are never members: only this process.
    excluded: HashSet<u32>,
    /// The processes of `excluded` that are descendants of the target: their children are members.
    excluded_kin: HashSet<u32>,
    /// Processes that an event reported and no update has read yet.
    known_by_events: HashSet<u32>,
    /// Processes that the last update could not read, because an exec of theirs does not finish.
    locked: HashSet<u32>,
    /// Processes whose first thread ended before their other threads. For such a process, no event
    /// reports the end.
    headless: HashSet<u32>,
    /// What is known of descent without events; `None` unless the target is a process with its
    /// descendants.
    descent: Option<Descent>,
    /// The control group of the target's first process; `None` if it is not known.
    first_group: Option<FirstGroup>,
    ended: Ended,
    /// Whether events have been complete since the last full update.
    events_complete: bool,
    /// Number of updates since the last full one.
    since_scan: u32,
}

/// Every how many updates one is a full update, which reads all processes even if events are
/// complete. This bounds how long a mistake can last.
const SCAN_EVERY: u32 = 32;

impl Family {
    /// Returns a family without members; the first [`Family::update`] finds them. If events are to
    /// be used, open them before this call.
    ///
    /// # Errors
    /// The process does not exist, or the target is a control group and `groups` is `None`.
    pub fn new(proc: Proc, groups: Option<Groups>, target: Target) -> Result<Family, Error> {
        let descent = match &target {
            Target::Descendants(pid) => {
                let stat = proc.stat(*pid)?.filter(|stat| !stat.is_over());
                Some(Descent::of(&stat.ok_or(Error::NoProcess { pid: *pid })?))
            }
            Target::Group(_) if groups.is_none() => {
                let why = "a control group was requested, but none are known here".to_owned();
                return Err(Error::NoController { why });
            }
            Target::Group(_) | Target::All => None,
        };
        let excluded = HashSet::from([std::process::id()]);
        // From now on, events of the target's first process are taken into account.
        let first = match &target {
            Target::Descendants(pid) => HashSet::from([*pid]),
            Target::Group(_) | Target::All => HashSet::new(),
        };
        let (excluded_kin, known_by_events) =
            first.into_iter().partition(|pid| excluded.contains(pid));
        Ok(Family {
            proc,
            groups,
            target,
            members: HashMap::new(),
            excluded,
            excluded_kin,
            known_by_events,
            locked: HashSet::new(),
            headless: HashSet::new(),
            descent,
            first_group: None,
            ended: Ended {
                by_events: true,
                ..Ended::default()
            },
            events_complete: false,
            since_scan: 0,
        })
    }

    /// Returns whether any of the processes in `locked` can be read again, or has ended.
    fn is_any_free(&self, locked: &HashSet<u32>) -> bool {
        let is_locked = |stat: Result<_, Error>| stat.is_err_and(|error| error.is_locked());
        !locked.iter().all(|pid| is_locked(self.proc.stat(*pid)))
    }

    /// Returns the pids of processes that may be members but cannot be read, because an exec of
    /// theirs does not finish.
    pub fn locked(&self) -> impl Iterator<Item = u32> {
        self.locked.iter().copied()
    }

    /// Brings the list of members up to date and returns the changes. If events are complete, only
    /// the processes that they report are read; otherwise all. `listed`: the processes in the
    /// target's control group, if the caller has just listed them.
    ///
    /// # Errors
    /// `/proc` or the control group cannot be read. If the target has ended, that is no error: all
    /// its members are reported as gone.
    pub fn update(
        &mut self,
        events: Option<&mut Events>,
        listed: Option<Vec<u32>>,
    ) -> Result<Changes, Error> {
        let mut changes = Changes::default();
        let has_all_events = events.is_some_and(|events| {
            let drained = events.drain();
            changes.lost = drained.lost;
            self.apply_events(&drained.events, &mut changes);
            !drained.lost
        });
        self.ended.by_events &= has_all_events;
        self.events_complete &= has_all_events;
        self.since_scan += 1;
        let locked = std::mem::take(&mut self.locked);
        let by_events =
            self.events_complete && self.since_scan < SCAN_EVERY && !self.is_any_free(&locked);
        if by_events {
            self.locked = locked;
        }
        if by_events && matches!(self.target, Target::Group(_)) {
            // No event reports that a process was moved between groups.
            self.check_listed(listed, &mut changes)?;
        } else if by_events {
            self.update_by_events(&mut changes)?;
        } else {
            self.scan(listed, &mut changes)?;
            if !has_all_events {
                // A process whose end no event reported would stay in this set forever.
                self.known_by_events.clear();
            }
            self.events_complete = has_all_events;
            self.since_scan = 0;
        }
        Ok(changes)
    }

    /// Returns all members, in no particular order.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Returns the member with this pid.
    #[must_use]
    pub fn member(&self, pid: u32) -> Option<&Member> {
        self.members.get(&pid)
    }

    /// Records the peak of a member's resident memory (`VmHWM`, bytes), for
    /// [`Ended::peak_resident`]. It must be read while the member lives: after its end the kernel
    /// no longer reports it.
    pub fn note_peak(&mut self, pid: u32, bytes: u64) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.peak = member.peak.max(bytes);
        }
    }

    /// Returns the counts of the processes that ended so far.
    #[must_use]
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// Returns the number of processes that may or may not be descendants, because their parents
    /// ended between two updates.
    #[must_use]
    pub fn maybe_missed(&self) -> u64 {
        self.descent.as_ref().map_or(0, Descent::unsure)
    }

    /// Adds a process as a new member.
    fn admit(&mut self, stat: &Stat, changes: &mut Changes) {
        self.known_by_events.remove(&stat.pid);
        // An access worker shares the memory of this process, which is never a member itself.
        if stat.comm == access::WORKER && stat.parent == std::process::id() {
            return;
        }
        if stat.state == b'Z' {
            self.headless.insert(stat.pid);
        }
        let member = Member::of(stat);
        changes.new.push(member.clone());
        self.members.insert(stat.pid, member);
    }

    /// Forgets the peaks of resident memory that were recorded so far.
    pub fn forget_peaks(&mut self) {
        self.members.values_mut().for_each(|member| member.peak = 0);
    }

    /// Removes a member and reports it as gone.
    fn dismiss(&mut self, pid: u32, how: Departure, changes: &mut Changes) {
        let Some(member) = self.members.remove(&pid) else {
            return;
        };
        if matches!(how, Departure::Ended { .. }) {
            self.ended.processes += 1;
            self.ended.peak_resident = self.ended.peak_resident.max(member.peak);
        }
        self.headless.remove(&pid);
        changes
            .execs
            .retain(|identity| *identity != member.identity);
        changes.gone.push(Gone {
            identity: member.identity,
            how,
        });
    }
}

impl Member {
    /// Creates a member from a process's `stat`.
    fn of(stat: &Stat) -> Member {
        Member {
            identity: stat.identity(),
            parent: stat.parent,
            comm: stat.comm.clone(),
            session: stat.session,
            group: stat.group,
            stack: stat.stack,
            peak: 0,
        }
    }

    /// Updates the member from a later read of `stat`. Returns whether the process has begun to run
    /// another program since the last read.
    fn renew(&mut self, stat: &Stat) -> bool {
        let runs_other_program = self.stack != 0 && stat.stack != 0 && self.stack != stat.stack;
        *self = Member {
            peak: self.peak,
            ..Member::of(stat)
        };
        runs_other_program
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
