//! The processes of a target, kept up to date by events and by looks at `/proc`.
//!
//! Invariant: a member is one [`Identity`], given as new once and as gone once. Threads of the kernel
//! and we ourselves are never members. With complete
//! events the family is exact; looks alone miss processes that live between two of them, and may
//! lose descendants whose parents did ([`Family::maybe_missed`]).

mod descent;
mod heard;
mod listed;
mod scans;

use std::collections::{HashMap, HashSet};

use pagetables::access;

use super::cgroup::{Group, Groups};
use super::error::Error;
use super::events::Events;
use super::proc::Proc;
use super::process::{Identity, Stat};
use descent::Descent;
use scans::Home;

/// Whose processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A process, its children and theirs, whatever they exec, whichever user, session or namespace
    /// they go to. Once in, always in.
    Descendants(u32),
    /// A control group and those below it: who is moved out of it leaves.
    Group(Group),
    /// All that the tree shows.
    All,
}

/// One process of the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Who.
    pub identity: Identity,
    /// Its parent when it was last looked at.
    pub parent: u32,
    /// Its name then, as a terminal may show it.
    pub comm: String,
    session: u32,
    group: u32,
    /// Its first stack: another one means another program.
    stack: u64,
    /// The most that was resident, as far as it was noted, bytes.
    peak: u64,
}

/// How a member left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It ended.
    Ended {
        /// As wait(2) gives it, if events told.
        status: Option<u32>,
    },
    /// It lives on outside of the target's control group.
    Moved,
}

/// A member that is one no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone {
    /// Who.
    pub identity: Identity,
    /// How.
    pub how: Departure,
}

/// What an update found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Members that were not before.
    pub new: Vec<Member>,
    /// Members that are no longer.
    pub gone: Vec<Gone>,
    /// Members that run another program: all that was known of their memory is void. By looks alone
    /// known where we may see addresses (`PTRACE_MODE_READ`).
    pub execs: Vec<Identity>,
    /// Events were lost since the last update, so that it looked at all processes again.
    pub lost: bool,
}

/// Processes that came and went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// How many ended.
    pub processes: u64,
    /// How many of them no look ever saw; known with events only.
    pub unseen: u64,
    /// The largest peak among all that ended, as far as it was noted, bytes.
    pub peak_resident: u64,
    /// Events told of every one: the counts are exact.
    pub by_events: bool,
}

/// The processes of a target.
#[derive(Debug)]
pub struct Family {
    proc: Proc,
    groups: Option<Groups>,
    target: Target,
    members: HashMap<u32, Member>,
    left: HashSet<u32>,
    /// Those that are left out, and are descendants of the target: their children are members.
    left_kin: HashSet<u32>,
    /// Known by events and not looked at yet.
    heard: HashSet<u32>,
    /// Of these nothing could be read at the last update: they are within an exec that does not end.
    locked: HashSet<u32>,
    /// First threads of these ended before others did: the end of the rest comes without an event.
    headless: HashSet<u32>,
    /// Descent as far as looks tell; none for other targets.
    descent: Option<Descent>,
    home: Option<Home>,
    ended: Ended,
    /// Events cover all that happened since the last look at everything.
    covered: bool,
    /// Updates since then.
    since_scan: u32,
}

/// Updates by events between two looks at everything. Events are complete as far as the kernel
/// says so; this bounds how long a mistake can last.
const SCAN_EVERY: u32 = 32;

impl Family {
    /// An empty family of a target; the first [`Family::update`] finds its members. Events, if there
    /// are any, should have been opened before.
    ///
    /// # Errors
    /// If the process does not exist, or a control group is asked for and `groups` is none.
    pub fn new(proc: Proc, groups: Option<Groups>, target: Target) -> Result<Family, Error> {
        let descent = match &target {
            Target::Descendants(pid) => {
                let stat = proc.stat(*pid)?.filter(|stat| !stat.is_over());
                Some(Descent::of(&stat.ok_or(Error::NoProcess { pid: *pid })?))
            }
            Target::Group(_) if groups.is_none() => {
                let why = "a control group was asked for where none are known".to_owned();
                return Err(Error::NoController { why });
            }
            Target::Group(_) | Target::All => None,
        };
        let left = HashSet::from([std::process::id()]);
        // What the first one does from now on is heard.
        let first = match &target {
            Target::Descendants(pid) => HashSet::from([*pid]),
            Target::Group(_) | Target::All => HashSet::new(),
        };
        let (left_kin, heard) = first.into_iter().partition(|pid| left.contains(pid));
        Ok(Family {
            proc,
            groups,
            target,
            members: HashMap::new(),
            left,
            left_kin,
            heard,
            locked: HashSet::new(),
            headless: HashSet::new(),
            descent,
            home: None,
            ended: Ended {
                by_events: true,
                ..Ended::default()
            },
            covered: false,
            since_scan: 0,
        })
    }

    /// Whether one of these can be read again, or is gone.
    fn is_any_free(&self, locked: &HashSet<u32>) -> bool {
        let is_locked = |stat: Result<_, Error>| stat.is_err_and(|error| error.is_locked());
        !locked.iter().all(|pid| is_locked(self.proc.stat(*pid)))
    }

    /// Processes that may be members, and of which nothing can be read: they are within an exec that does not end.
    pub fn locked(&self) -> impl Iterator<Item = u32> {
        self.locked.iter().copied()
    }

    /// Brings the family up to date. With events that are complete, only processes that they name
    /// are read; else all are. `listed`: who is in the control group, where somebody else has just listed that.
    ///
    /// # Errors
    /// If `/proc` or the control group cannot be read. A target that is gone is no error: its members
    /// are.
    pub fn update(
        &mut self,
        events: Option<&mut Events>,
        listed: Option<Vec<u32>>,
    ) -> Result<Changes, Error> {
        let mut changes = Changes::default();
        let heard_all = events.is_some_and(|events| {
            let drained = events.drain();
            changes.lost = drained.lost;
            self.hear(&drained.events, &mut changes);
            !drained.lost
        });
        self.ended.by_events &= heard_all;
        self.covered &= heard_all;
        self.since_scan += 1;
        let locked = std::mem::take(&mut self.locked);
        let by_events = self.covered && self.since_scan < SCAN_EVERY && !self.is_any_free(&locked);
        if by_events {
            self.locked = locked;
        }
        if by_events && matches!(self.target, Target::Group(_)) {
            // Processes are moved between groups without an event.
            self.check_listed(listed, &mut changes)?;
        } else if by_events {
            self.check_heard(&mut changes)?;
        } else {
            self.scan(listed, &mut changes)?;
            if !heard_all {
                // Whoever ended unheard would stay here forever.
                self.heard.clear();
            }
            self.covered = heard_all;
            self.since_scan = 0;
        }
        Ok(changes)
    }

    /// All members, in no order.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// The member with a pid.
    #[must_use]
    pub fn member(&self, pid: u32) -> Option<&Member> {
        self.members.get(&pid)
    }

    /// Remembers how much of a member was resident at most (`VmHWM`, bytes), for when it has ended:
    /// its memory is gone before any event tells, so only a look while it lives can know.
    pub fn note_peak(&mut self, pid: u32, bytes: u64) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.peak = member.peak.max(bytes);
        }
    }

    /// Those that ended so far.
    #[must_use]
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// Processes that lost their parents between two looks, and may be descendants or not.
    #[must_use]
    pub fn maybe_missed(&self) -> u64 {
        self.descent.as_ref().map_or(0, Descent::unsure)
    }

    /// Takes a process in, as new.
    fn admit(&mut self, stat: &Stat, changes: &mut Changes) {
        self.heard.remove(&stat.pid);
        // It shares our memory, and we leave ourselves alone.
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

    /// How large members were is not told of what they are now.
    pub fn forget_peaks(&mut self) {
        self.members.values_mut().for_each(|member| member.peak = 0);
    }

    /// Lets a member go.
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

    /// Takes over what a later look says; whether another program runs since.
    fn renew(&mut self, stat: &Stat) -> bool {
        let other = self.stack != 0 && stat.stack != 0 && self.stack != stat.stack;
        *self = Member {
            peak: self.peak,
            ..Member::of(stat)
        };
        other
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
