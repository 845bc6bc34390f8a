//! How a wall is known: by its name, and by a mark on it.
//!
//! Invariant: the mark says which manager has the group; the lock on its directory says whether that one
//! lives, whatever became of its pid. A group with our name and no mark is somebody else's.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use super::attribute;
use super::limits::Limits;
use crate::system::Identity;
use crate::system::text::{number, number32, words};

/// (Of the users' kind its owner may set it, on cgroup file systems since Linux 5.7.)
const NAME: &str = "wall";
const PREFIX: &str = "pagetide-";

/// What stands on a wall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Who has it now: the one that made it, or took it up.
    pub(super) manager: Identity,
    /// What lifting it leaves.
    pub(super) ceiling: Limits,
}

/// `pagetide-PID-STARTED`.
pub(super) fn name(manager: Identity) -> String {
    format!("{PREFIX}{}-{}", manager.pid, manager.started)
}

/// Whether a group carries a mark of any pagetide, of whatever rights: whose it is nobody knows.
pub(super) fn is_anybodys(dir: &OwnedFd) -> bool {
    attribute::is_shown(dir, NAME)
}

/// Whether a name is one that [`name`] gives.
pub(super) fn is_name(name: &OsStr) -> Option<Identity> {
    let rest = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
    let dash = rest.iter().position(|&byte| byte == b'-')?;
    Some(Identity {
        pid: number32(&rest[..dash])?,
        started: number(&rest[dash + 1..])?,
    })
}

impl Mark {
    pub(super) fn text(&self) -> String {
        let word = |limit: Option<u64>| limit.map_or("max".to_owned(), |bytes| bytes.to_string());
        format!(
            "{} {} {} {} {}",
            self.manager.pid,
            self.manager.started,
            word(self.ceiling.max),
            word(self.ceiling.high),
            word(self.ceiling.swap_max)
        )
    }

    pub(super) fn parse(text: &[u8]) -> Option<Mark> {
        let mut words = words(text);
        let manager = Identity {
            pid: number32(words.next()?)?,
            started: number(words.next()?)?,
        };
        let mut limit = || match words.next()? {
            b"max" => Some(None),
            word => number(word).map(Some),
        };
        Some(Mark {
            manager,
            ceiling: Limits {
                max: limit()?,
                high: limit()?,
                swap_max: limit()?,
            },
        })
    }

    pub(super) fn set(&self, dir: &OwnedFd) -> Result<(), Errno> {
        attribute::set(dir, NAME, self.text().as_bytes())?;
        attribute::show(dir, NAME);
        Ok(())
    }

    pub(super) fn of(dir: &OwnedFd) -> Option<Mark> {
        Mark::parse(&attribute::get(dir, NAME)?)
    }
}
