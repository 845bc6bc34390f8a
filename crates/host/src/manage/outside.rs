//! Members that went elsewhere: a wall holds those that are in its control group, and whoever moved itself, or was moved (a scope of
//! systemd's, a container's group), is charged there.
//!
//! Invariant: a member counts as outside only if it was there after the wall was read without it, so none that just ended does.

use std::collections::BTreeSet;

use crate::system::start::NAME;
use crate::system::{Identity, Proc};
use crate::wall::Wall;
use crate::watch::Watch;

/// As of the last look.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// How many.
    members: usize,
}

impl Outside {
    /// After a look: what to say where somebody is outside now and nobody was.
    pub(super) fn check(&mut self, watch: &Watch, wall: &Wall) -> Option<String> {
        let inside: BTreeSet<u32> = match wall.pids() {
            Ok(pids) => pids.into_iter().collect(),
            // What cannot be read tells nothing; of a group that is gone nobody is in it.
            Err(_) if wall.is_there() => return None,
            Err(_) => BTreeSet::new(),
        };
        let elsewhere = |one: &&Identity| !inside.contains(&one.pid) && lives(watch.proc(), **one);
        let before = self.members;
        self.members = watch.members().iter().filter(elsewhere).count();
        self.note().filter(|_| before == 0)
    }

    /// Whether the wall has all members.
    pub(super) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// What a reader of limits must know; none where the wall has all members.
    pub(super) fn note(&self) -> Option<String> {
        (self.members > 0).then(|| {
            format!(
                "{} processes are not in the control group of the limits (they left it, or were moved): limits hold for them between \
                 looks alone",
                self.members
            )
        })
    }
}

/// Whether it is there still, with memory. Our own guard, which is a child of who is process 1, is in no wall.
fn lives(proc: &Proc, one: Identity) -> bool {
    let stat = match proc.stat(one.pid) {
        // It is within an exec, and so it lives.
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

    /// The story: a member that had ended between two readings, and one whose number was another's, were not in the wall any more.
    #[test]
    fn who_has_ended_is_not_outside() {
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
    fn nothing_is_said_where_the_wall_has_all() {
        assert_eq!(Outside::default().note(), None);
        let note = Outside { members: 3 }.note().expect("a note");
        assert!(note.starts_with("3 processes are not in"), "{note}");
    }
}
