//! Names of processes for reports: command line, user, control group. They are read only now and
//! then.
//!
//! Invariant: a name may be some scans old, but never of before an exec that a scan has seen. No
//! decision depends on a name.

use std::collections::BTreeMap;

use crate::system::{Groups, Identity, Proc};

/// Every how many scans the names of a process are read.
const EVERY: u64 = 10;

/// The names of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessName {
    pub(super) command: String,
    pub(super) uid: u32,
    pub(super) cgroup: String,
    read: u64,
    /// The kernel's number of the address space when the names were read; it changes with an exec.
    space: u64,
}

/// The names of all watched processes.
#[derive(Debug, Default)]
pub(super) struct ProcessNames(BTreeMap<Identity, ProcessName>);

impl ProcessNames {
    /// Reads the names of processes that are new or that were read [`EVERY`] scans ago. Forgets
    /// processes that are no longer members.
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
            // The PID spreads the reads of all processes over several scans.
            let due = (round + u64::from(identity.pid)).is_multiple_of(EVERY);
            let space = space_of(*identity);
            let person = match known {
                Some(person) if person.space == space && (!due || person.read == round) => person,
                _ => ProcessName {
                    space,
                    ..read(*identity, round, proc, groups)
                },
            };
            self.0.insert(*identity, person);
        }
    }

    pub(super) fn get(&self, identity: Identity) -> Option<&ProcessName> {
        self.0.get(&identity)
    }
}

/// Reads the names of one process.
fn read(identity: Identity, round: u64, proc: &Proc, groups: Option<&Groups>) -> ProcessName {
    let pid = identity.pid;
    let command = proc.command(pid).ok().flatten().unwrap_or_default();
    let uid = proc
        .status(pid)
        .ok()
        .flatten()
        .map_or(0, |status| status.uid);
    let cgroup = groups
        .and_then(|groups| groups.name_of_process(proc, pid))
        .unwrap_or_default();
    ProcessName {
        command,
        uid,
        cgroup,
        read: round,
        space: 0,
    }
}
