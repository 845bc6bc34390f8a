//! The processes whose pages the engine knows.
//!
//! Invariant: we act on a process only through a pidfd, never through a PID, which may belong to
//! another process by now. After a pidfd was opened, we checked that the PID still belongs to the
//! process that was scanned.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::age_table::Owner;
use crate::system::descriptors::is_beyond;
use crate::system::{Identity, Proc};

/// The processes, by owner of the pages.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeMap<Owner, Member>,
    /// The pidfd that was returned last, if few descriptors were left and it is not kept in `all`.
    passing: Option<OwnedFd>,
}

/// A process whose pages the engine knows.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) identity: Identity,
    /// The process's pidfd; `None` until it is first needed.
    pidfd: Option<OwnedFd>,
}

impl Members {
    /// Records that `owner` is the address space of the process `identity`.
    pub(super) fn note(&mut self, owner: Owner, identity: Identity) {
        let is_same = |member: &Member| member.identity == identity;
        if !self.all.get(&owner).is_some_and(is_same) {
            let pidfd = None;
            self.all.insert(owner, Member { identity, pidfd });
        }
    }

    /// Forgets the process of an owner, and closes its pidfd.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.all.remove(&owner);
    }

    /// Returns the PID of an owner's process; `None` if no walk has found the process.
    pub(super) fn pid(&self, owner: Owner) -> Option<u32> {
        self.all.get(&owner).map(|member| member.identity.pid)
    }

    /// Returns the identity of an owner's process; `None` if no walk has found the process.
    pub(super) fn identity(&self, owner: Owner) -> Option<Identity> {
        self.all.get(&owner).map(|member| member.identity)
    }

    /// Returns the PID of an owner's process, then its pidfd; `None` if the process is gone. The
    /// pidfd stays open unless few descriptors are left: a target of many processes must not use up
    /// our limit of open files.
    pub(super) fn pidfd(&mut self, owner: Owner, proc: &Proc) -> Option<(u32, &OwnedFd)> {
        self.passing = None;
        let member = self.all.get_mut(&owner)?;
        let number = member.identity.pid;
        if member.pidfd.is_none() {
            let pid = Pid::from_raw(member.identity.pid.cast_signed())?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // Checked after opening: if the PID still belongs to this process, the pidfd does, too.
            if proc.identity(member.identity.pid).ok()? != Some(member.identity) {
                return None;
            }
            if is_beyond(&pidfd, (3, 4)) {
                self.passing = Some(pidfd);
                return Some((number, self.passing.as_ref()?));
            }
            member.pidfd = Some(pidfd);
        }
        Some((number, member.pidfd.as_ref()?))
    }
}
