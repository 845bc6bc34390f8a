//! Finds which processes are descendants of the target, without events: children by their parents'
//! pids, orphans by their sessions and control group. An orphan is a process whose parent ended
//! between two updates, so that another process (a reaper) adopted it.
//!
//! Invariant: a process that may not be a descendant is never taken for one.
//!
//! - Sessions are inherited by fork only. So an orphan is a descendant if a descendant began its
//!   session, or if only descendants were in its session at the last update.
//! - A process can be moved to a control group, but only on purpose: see [`Share`].
//! - Any process of a session can join a process group, so a process group proves nothing.
//! - All other orphans that share a session, process group or control group with the family are
//!   counted as unsure, once each.

use std::collections::{HashMap, HashSet};

use super::scans::Seen;
use crate::system::process::{Identity, Stat};

/// Whether an orphan shares its session, process group or control group with the family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Share {
    /// As far as is known, the orphan shares none of them with the family.
    Nothing,
    /// The orphan shares one of them with the family and with other processes: it may be a
    /// descendant.
    Mixed,
    /// The orphan shares one of them with the family only: it is a descendant.
    Ours,
}

/// A function that returns with which processes a process shares its control group. Arguments: its
/// pid, the pids of the family, the pids of orphans that are not yet classified.
pub(super) type ShareOfGroup<'a> = &'a dyn Fn(u32, &HashSet<u32>, &HashSet<u32>) -> Share;

/// What is known of descent from earlier updates.
#[derive(Debug)]
pub(super) struct Descent {
    /// The target's first process, from which all members descend.
    root: Identity,
    /// Pids of processes that may have adopted an orphan: init, and ancestors of the root that are
    /// reapers (prctl(2), `PR_SET_CHILD_SUBREAPER`).
    reapers: HashSet<u32>,
    /// Pid of the root's parent when the last update read the root.
    parent: Option<u32>,
    /// Numbers of the sessions that a descendant began.
    begun: HashSet<u32>,
    /// Numbers of the sessions that had only descendants at the last update.
    own: HashSet<u32>,
    /// Processes that were not descendants at the last update; `None` before the first update.
    strangers: Option<HashSet<Identity>>,
    /// Number of orphans that may or may not be descendants.
    unsure: u64,
}

impl Descent {
    pub(super) fn of(root: &Stat) -> Descent {
        Descent {
            root: root.identity(),
            reapers: HashSet::from([1]),
            parent: None,
            begun: HashSet::new(),
            own: HashSet::new(),
            strangers: None,
            unsure: 0,
        }
    }

    /// Returns the number of orphans that may or may not be descendants.
    pub(super) fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Adds all descendants among the processes `seen` to `family`. Orphans are classified only if
    /// `ask` is set: with complete events they are known already.
    pub(super) fn grow(
        &mut self,
        seen: &Seen,
        family: &mut HashSet<u32>,
        ask: bool,
        share: ShareOfGroup<'_>,
    ) {
        if seen.get(&self.root.pid).map(Stat::identity) == Some(self.root) {
            family.insert(self.root.pid);
        }
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for stat in seen.values() {
            children.entry(stat.parent).or_default().push(stat.pid);
        }
        add_children(&children, family);
        if !ask {
            return;
        }
        self.find_reapers(seen);
        let mut orphans = self.orphans(seen, family);
        // Each orphan that is found may prove, by its session, that another orphan is a descendant.
        loop {
            let before = family.len();
            self.add_begun_sessions(seen, family);
            orphans.retain(|stat| !family.contains(&stat.pid));
            let requested: HashSet<u32> = orphans.iter().map(|stat| stat.pid).collect();
            for stat in &orphans {
                if self.relation(stat, seen, family, &requested, share) == Share::Ours {
                    family.insert(stat.pid);
                }
            }
            add_children(&children, family);
            if family.len() == before {
                break;
            }
        }
        if self.strangers.is_some() {
            let requested = orphans.iter().map(|stat| stat.pid).collect();
            let unsure = orphans.iter().filter(|stat| {
                self.relation(stat, seen, family, &requested, share) == Share::Mixed
            });
            self.unsure += u64::try_from(unsure.count()).unwrap_or(u64::MAX);
        }
    }

    /// Records sessions and strangers of this update for the next update.
    pub(super) fn remember(&mut self, seen: &Seen, family: &HashSet<u32>) {
        let kin = family.iter().filter_map(|pid| seen.get(pid));
        // The kernel does not reuse a session's number while a member is in the session; afterwards
        // it may.
        let held: HashSet<u32> = kin.map(|stat| stat.session).collect();
        self.begun.retain(|session| held.contains(session));
        let begun = held.iter().filter(|session| family.contains(session));
        self.begun.extend(begun);
        self.own = held;
        let strangers = || seen.values().filter(|stat| !family.contains(&stat.pid));
        for stat in strangers() {
            self.own.remove(&stat.session);
        }
        self.strangers = Some(strangers().map(Stat::identity).collect());
    }

    /// Adds the sessions that members began to `begun`.
    fn add_begun_sessions(&mut self, seen: &Seen, family: &HashSet<u32>) {
        let sessions = family
            .iter()
            .filter_map(|pid| seen.get(pid))
            .map(|stat| stat.session);
        self.begun
            .extend(sessions.filter(|session| family.contains(session)));
    }

    /// Finds processes that may adopt orphans. Ancestors of the root in another session may be such
    /// reapers, as service managers are. Ancestors in the root's own session are shells that run
    /// the root; their other children are no orphans. If the root has another parent than before,
    /// that process adopted the root, so it may adopt others.
    fn find_reapers(&mut self, seen: &Seen) {
        let Some(root) = seen
            .get(&self.root.pid)
            .filter(|s| s.identity() == self.root)
        else {
            return;
        };
        if self
            .parent
            .replace(root.parent)
            .is_some_and(|parent| parent != root.parent)
        {
            self.reapers.insert(root.parent);
        }
        if self.strangers.is_some() {
            return;
        }
        let mut above = root.parent;
        // Processes are read one after the other, so their parents may seem to form a ring. So the
        // search ends after as many steps as there are processes.
        for _ in 0..seen.len() {
            let Some(stat) = seen.get(&above) else { break };
            if stat.session != root.session {
                self.reapers.insert(above);
            }
            above = stat.parent;
        }
    }

    /// Returns the processes that a reaper may have adopted since the last update.
    fn orphans<'a>(&self, seen: &'a Seen, family: &HashSet<u32>) -> Vec<&'a Stat> {
        seen.values()
            .filter(|stat| self.reapers.contains(&stat.parent))
            .filter(|stat| !family.contains(&stat.pid) && stat.started >= self.root.started)
            .filter(|stat| {
                let before = self.strangers.as_ref();
                before.is_none_or(|strangers| !strangers.contains(&stat.identity()))
            })
            .collect()
    }

    /// Returns what an orphan shares with the family, which decides whether it is a descendant.
    fn relation(
        &self,
        stat: &Stat,
        seen: &Seen,
        family: &HashSet<u32>,
        requested: &HashSet<u32>,
        share: ShareOfGroup<'_>,
    ) -> Share {
        if self.begun.contains(&stat.session) || self.own.contains(&stat.session) {
            return Share::Ours;
        }
        // Before the first update no stranger is known, so only sessions prove anything.
        if self.strangers.is_none() {
            return Share::Nothing;
        }
        let kin = seen
            .values()
            .filter(|other| family.contains(&other.pid))
            .any(|other| {
                other.pid != stat.pid
                    && (other.group == stat.group || other.session == stat.session)
            });
        match share(stat.pid, family, requested) {
            Share::Nothing if kin => Share::Mixed,
            shared => shared,
        }
    }
}

/// Adds all descendants of the family's processes to `family`. `children`: the pids of each
/// process's children.
fn add_children(children: &HashMap<u32, Vec<u32>>, family: &mut HashSet<u32>) {
    let mut parents: Vec<u32> = family.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        let its_children = children.get(&parent).map_or(&[][..], Vec::as_slice);
        parents.extend(
            its_children
                .iter()
                .copied()
                .filter(|&child| family.insert(child)),
        );
    }
}
