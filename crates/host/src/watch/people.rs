//! Who the processes are: command, user, control group. Names for reports, read rarely.
//!
//! Invariant: a name may be some rounds old, but not from before an exec that a look has seen; it never decides anything.

use std::collections::BTreeMap;

use crate::system::{Groups, Identity, Proc};

/// Rounds between two readings of a name.
const EVERY: u64 = 10;

/// A process as people know it.
#[derive(Clone, Debug, Default)]
pub(super) struct Person {
    pub(super) command: String,
    pub(super) uid: u32,
    pub(super) cgroup: String,
    read: u64,
    /// Its address space then, by the kernel's number: another one is another program.
    space: u64,
}

/// All that are watched.
#[derive(Debug, Default)]
pub(super) struct People(BTreeMap<Identity, Person>);

impl People {
    /// Reads the names of those that are new or were read long ago; forgets who is not a member.
    pub(super) fn update(
        &mut self,
        members: &[Identity],
        round: u64,
        proc: &Proc,
        groups: Option<&Groups>,
        space_of: &dyn Fn(Identity) -> u64,
    ) {
        let mut before = std::mem::take(&mut self.0);
        for identity in members {
            let known = before.remove(identity);
            // The work is spread over rounds by the pid.
            let due = (round + u64::from(identity.pid)).is_multiple_of(EVERY);
            let space = space_of(*identity);
            let person = match known {
                Some(person) if person.space == space && (!due || person.read == round) => person,
                _ => Person {
                    space,
                    ..read(*identity, round, proc, groups)
                },
            };
            self.0.insert(*identity, person);
        }
    }

    pub(super) fn get(&self, identity: Identity) -> Option<&Person> {
        self.0.get(&identity)
    }
}

fn read(identity: Identity, round: u64, proc: &Proc, groups: Option<&Groups>) -> Person {
    let pid = identity.pid;
    let command = proc.command(pid).ok().flatten().unwrap_or_default();
    let uid = proc
        .status(pid)
        .ok()
        .flatten()
        .map_or(0, |status| status.uid);
    let group = groups.and_then(|groups| groups.of_process(proc, pid).ok().flatten());
    let cgroup = group
        .map(|group| group.path.display().to_string())
        .unwrap_or_default();
    Person {
        command,
        uid,
        cgroup,
        read: round,
        space: 0,
    }
}
