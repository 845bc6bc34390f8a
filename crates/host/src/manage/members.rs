//! The processes whose pages the engine knows.
//!
//! Invariant: what is done to a process is done through a descriptor of it that was opened and then found to be of
//! the process that was read: never through a number that may be another's by now.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::books::Owner;
use crate::system::descriptors::is_beyond;
use crate::system::{Identity, Proc};

/// By owner.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeMap<Owner, Member>,
    /// Of the one that was asked for last, where it could not be kept.
    passing: Option<OwnedFd>,
}

/// A process.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) identity: Identity,
    /// Opened when it is first needed.
    pidfd: Option<OwnedFd>,
}

impl Members {
    /// This owner is the address space of that process.
    pub(super) fn note(&mut self, owner: Owner, identity: Identity) {
        let is_same = |member: &Member| member.identity == identity;
        if !self.all.get(&owner).is_some_and(is_same) {
            let pidfd = None;
            self.all.insert(owner, Member { identity, pidfd });
        }
    }

    pub(super) fn forget(&mut self, owner: Owner) {
        self.all.remove(&owner);
    }

    /// The process of an owner.
    pub(super) fn pid(&self, owner: Owner) -> Option<u32> {
        self.all.get(&owner).map(|member| member.identity.pid)
    }

    /// Who it is.
    pub(super) fn identity(&self, owner: Owner) -> Option<Identity> {
        self.all.get(&owner).map(|member| member.identity)
    }

    /// Its number and a descriptor of it; none if it is gone. It is kept, but where few are left. (The story, of a reading: a program of 600 processes with a limit of 1,024
    /// took all of them, and the next question that somebody asked ended the manager.)
    pub(super) fn pidfd(&mut self, owner: Owner, proc: &Proc) -> Option<(u32, &OwnedFd)> {
        self.passing = None;
        let member = self.all.get_mut(&owner)?;
        let number = member.identity.pid;
        if member.pidfd.is_none() {
            let pid = Pid::from_raw(member.identity.pid.cast_signed())?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // After the opening: the number was this process's until now, so the descriptor is.
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
