//! Counts members (processes) of the tenant that are outside of its cgroup. The cgroup's limits
//! hold only for processes in it. If a process moved, or was moved, to another cgroup (a systemd
//! scope, a container's cgroup), the kernel charges its memory there.
//!
//! Invariant: a member counts as outside only if it still exists after the list of processes in the
//! cgroup was read. So a member that has just ended does not count.

use std::collections::BTreeSet;

use crate::hard_limit::HardLimit;
use crate::system::start::NAME;
use crate::system::{Identity, Proc};
use crate::watch::Watch;

/// Members of the tenant outside of its cgroup, as of the last scan.
#[derive(Debug, Default)]
pub(super) struct MembersOutside {
    /// Number of members outside.
    members: usize,
}

impl MembersOutside {
    /// Counts the members outside after a scan. Returns a message if there are some now and there
    /// were none at the scan before.
    pub(super) fn check(&mut self, watch: &Watch, hard_limit: &HardLimit) -> Option<String> {
        let inside: BTreeSet<u32> = match hard_limit.pids() {
            Ok(pids) => pids.into_iter().collect(),
            // If the file cannot be read, the count stays; if the cgroup is gone, no process is in
            // it.
            Err(_) if hard_limit.is_there() => return None,
            Err(_) => BTreeSet::new(),
        };
        let elsewhere = |one: &&Identity| !inside.contains(&one.pid) && lives(watch.proc(), **one);
        let before = self.members;
        self.members = watch.members().iter().filter(elsewhere).count();
        self.note().filter(|_| before == 0)
    }

    /// Whether all members are in the cgroup.
    pub(super) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Returns a note for reports of limits, with the number of members outside; `None` if there
    /// are none.
    pub(super) fn note(&self) -> Option<String> {
        (self.members > 0).then(|| {
            format!(
                "{} processes are not in the control group of the limits (they left it, or were \
                 moved): for them limits are enforced only at each scan",
                self.members
            )
        })
    }
}

/// Whether the process still exists and has memory. Returns false for our guard, a child of process
/// 1 outside of the cgroup.
fn lives(proc: &Proc, one: Identity) -> bool {
    let stat = match proc.stat(one.pid) {
        // The process is executing another program, so it exists.
        Err(error) if error.is_locked() => return true,
        stat => stat.ok().flatten(),
    };
    stat.is_some_and(|stat| {
        let is_same = stat.started == one.started && !stat.is_over();
        is_same && stat.resident > 0 && stat.comm != NAME
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: two kinds of members counted as outside: one that had ended between two reads,
    /// and one with a PID that now belonged to another process.
    #[test]
    fn an_ended_process_is_not_outside() {
        let proc = Proc::system().expect("/proc");
        let own = std::process::id();
        let own = proc.identity(own).expect("/proc").expect("it lives");
        assert!(lives(&proc, own));
        let other = Identity {
            started: own.started + 1,
            ..own
        };
        assert!(!lives(&proc, other));
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id();
        child.wait().expect("it ends");
        assert!(!lives(&proc, Identity { pid, started: 1 }));
    }

    #[test]
    fn there_is_no_note_if_the_cgroup_has_all_members() {
        assert_eq!(MembersOutside::default().note(), None);
        let note = MembersOutside { members: 3 }.note().expect("a note");
        assert!(note.starts_with("3 processes are not in"), "{note}");
    }
}
