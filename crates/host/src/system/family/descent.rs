//! Descent as looks show it: children by their parents' pids, and orphans by what they kept.
//!
//! Invariant: nobody is taken for a descendant who may be none. Sessions pass by fork alone, so an
//! orphan (its parent ended between two looks, and a reaper took it) is one if a descendant began its
//! session, or if none but descendants were in it at the last look. Process groups prove nothing:
//! others can join them. Control groups can be joined too, but not by chance: [`Share`]. Other orphans
//! that share something with the family are counted as unsure, once each.

use std::collections::{HashMap, HashSet};

use super::scans::Seen;
use crate::system::process::{Identity, Stat};

/// With whom something is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Share {
    /// With nobody of the family.
    Nothing,
    /// With the family and with others.
    Mixed,
    /// With the family alone.
    Ours,
}

/// Tells with whom a process shares its control group, given those that are ours and those that are
/// in question.
pub(super) type ShareOfGroup<'a> = &'a dyn Fn(u32, &HashSet<u32>, &HashSet<u32>) -> Share;

/// What is remembered between looks.
#[derive(Debug)]
pub(super) struct Descent {
    root: Identity,
    /// Who may have taken an orphan: init, and ancestors of the root that reap (prctl(2),
    /// `PR_SET_CHILD_SUBREAPER`).
    reapers: HashSet<u32>,
    /// Of the root, when last seen.
    parent: Option<u32>,
    /// Sessions that a descendant began.
    begun: HashSet<u32>,
    /// Sessions that held descendants and nobody else at the last look.
    own: HashSet<u32>,
    /// Those that are none, as of the last look; none before the first.
    strangers: Option<HashSet<Identity>>,
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

    /// Orphans whose descent is not known.
    pub(super) fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Adds all descendants to a family. Orphans are asked about only where `ask` says so: events
    /// know better.
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
        // One orphan found may tell of another: its session.
        loop {
            let before = family.len();
            self.lead(seen, family);
            orphans.retain(|stat| !family.contains(&stat.pid));
            let asked: HashSet<u32> = orphans.iter().map(|stat| stat.pid).collect();
            for stat in &orphans {
                if self.relation(stat, seen, family, &asked, share) == Share::Ours {
                    family.insert(stat.pid);
                }
            }
            add_children(&children, family);
            if family.len() == before {
                break;
            }
        }
        if self.strangers.is_some() {
            let asked = orphans.iter().map(|stat| stat.pid).collect();
            let unsure = orphans
                .iter()
                .filter(|stat| self.relation(stat, seen, family, &asked, share) == Share::Mixed);
            self.unsure += u64::try_from(unsure.count()).unwrap_or(u64::MAX);
        }
    }

    /// Keeps what the next look needs.
    pub(super) fn remember(&mut self, seen: &Seen, family: &HashSet<u32>) {
        let kin = family.iter().filter_map(|pid| seen.get(pid));
        // A number stays taken while a member holds it; after that it may be anybody's.
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

    /// Takes over sessions that were begun by members of this look.
    fn lead(&mut self, seen: &Seen, family: &HashSet<u32>) {
        let sessions = family
            .iter()
            .filter_map(|pid| seen.get(pid))
            .map(|stat| stat.session);
        self.begun
            .extend(sessions.filter(|session| family.contains(session)));
    }

    /// Ancestors of another session may reap, as service managers do; those of the root's own session
    /// are shells that run it, and whatever else they start is no orphan. Who takes the root is one.
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
        // A look is not one moment, so parents may form a ring: no more steps than processes.
        for _ in 0..seen.len() {
            let Some(stat) = seen.get(&above) else { break };
            if stat.session != root.session {
                self.reapers.insert(above);
            }
            above = stat.parent;
        }
    }

    /// Processes that a reaper may have taken since the last look.
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

    fn relation(
        &self,
        stat: &Stat,
        seen: &Seen,
        family: &HashSet<u32>,
        asked: &HashSet<u32>,
        share: ShareOfGroup<'_>,
    ) -> Share {
        if self.begun.contains(&stat.session) || self.own.contains(&stat.session) {
            return Share::Ours;
        }
        // At the first look nobody is known to be a stranger, and only sessions are proof.
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
        match share(stat.pid, family, asked) {
            Share::Nothing if kin => Share::Mixed,
            shared => shared,
        }
    }
}

/// Adds children of the family, and theirs.
fn add_children(children: &HashMap<u32, Vec<u32>>, family: &mut HashSet<u32>) {
    let mut parents: Vec<u32> = family.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        let of = children.get(&parent).map_or(&[][..], Vec::as_slice);
        parents.extend(of.iter().copied().filter(|&child| family.insert(child)));
    }
}
