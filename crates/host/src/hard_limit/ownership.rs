//! Recognizes a cgroup that a pagetide manages, by its name and by an ownership xattr on it.
//!
//! Invariant: the ownership xattr names the manager that owns the cgroup. The lock on the cgroup's
//! directory shows whether that manager is alive, even if its pid was reused. A cgroup with our
//! name but without the xattr is not ours.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use engine::{Bytes, Limit};
use rustix::io::Errno;

use super::attribute;
use super::limits::Limits;
use crate::system::Identity;
use crate::system::text::{number, number32, words};

/// Name of the xattr, without its namespace. (In the `user.` namespace the cgroup's owner may set
/// it; the kernel supports that on cgroup file systems since Linux 5.7.)
const NAME: &str = "wall";
const PREFIX: &str = "pagetide-";

/// Content of the ownership xattr.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OwnershipXattr {
    /// The manager that owns the cgroup now: the one that made it, or that claimed it last.
    pub(super) manager: Identity,
    /// Limits that must still hold when our own limits are lifted.
    pub(super) ceiling: Limits,
}

/// Returns the name of a manager's hard-limit cgroup: `pagetide-PID-STARTED`.
pub(super) fn name(manager: Identity) -> String {
    format!("{PREFIX}{}-{}", manager.pid, manager.started)
}

/// Returns whether a cgroup carries the ownership xattr of any pagetide, even of one with other
/// rights than ours. Which manager owns the cgroup may then be unknown.
pub(super) fn has_any_manager(dir: &OwnedFd) -> bool {
    attribute::is_published(dir, NAME)
}

/// Returns the manager in a name that [`name`] has made; `None` for any other name.
pub(super) fn manager_of_name(name: &OsStr) -> Option<Identity> {
    let rest = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
    let dash = rest.iter().position(|&byte| byte == b'-')?;
    Some(Identity {
        pid: number32(&rest[..dash])?,
        started: number(&rest[dash + 1..])?,
    })
}

impl OwnershipXattr {
    /// Returns the text of the xattr, as parsed by [`OwnershipXattr::parse`].
    pub(super) fn text(&self) -> String {
        format!(
            "{} {} {} {} {}",
            self.manager.pid,
            self.manager.started,
            self.ceiling.max.file_text(),
            self.ceiling.high.file_text(),
            self.ceiling.swap_max.file_text()
        )
    }

    /// Parses the text of the xattr; `None` if it is not one of ours.
    pub(super) fn parse(text: &[u8]) -> Option<OwnershipXattr> {
        let mut words = words(text);
        let manager = Identity {
            pid: number32(words.next()?)?,
            started: number(words.next()?)?,
        };
        let mut limit = || match words.next()? {
            b"max" => Some(Limit::Max),
            word => Some(Limit::Bytes(Bytes(number(word)?))),
        };
        Some(OwnershipXattr {
            manager,
            ceiling: Limits {
                max: limit()?,
                high: limit()?,
                swap_max: limit()?,
            },
        })
    }

    /// Writes the xattr to an open cgroup.
    pub(super) fn set(&self, dir: &OwnedFd) -> Result<(), Errno> {
        attribute::set(dir, NAME, self.text().as_bytes())?;
        attribute::publish(dir, NAME);
        Ok(())
    }

    /// Reads the xattr of an open cgroup; `None` if it has none.
    pub(super) fn of(dir: &OwnedFd) -> Option<OwnershipXattr> {
        OwnershipXattr::parse(&attribute::get(dir, NAME)?)
    }
}
