//! How we reach a control group: by a descriptor that stays open, or by its path.
//!
//! Invariant: what is read or written goes to the group that was there first, never to a later one
//! of the same name: a path is followed by a comparison of the inode number, which the kernel's
//! control groups never use twice. Groups of our own stay open, for their lock; the host's own do
//! not: anybody may make thousands of them, and each would take one of our descriptors.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::fstat;
use rustix::io::Errno;

use super::files;
use crate::system::descriptors;

/// The part of our descriptors, as a fraction, that control groups of our own may take: the rest is
/// for requests (control socket, HTTP) and for the files that an answer needs.
const GROUPS_MAX: (u64, u64) = (7, 8);

/// How a group is reached.
#[derive(Debug)]
pub(super) enum Handle {
    /// It stays open.
    Held(OwnedFd),
    /// Each use opens it by its path.
    Named {
        /// The inode number of its directory.
        inode: u64,
    },
}

/// An open directory, for one use.
pub(super) enum Opened<'a> {
    Held(&'a OwnedFd),
    Once(OwnedFd),
}

impl Handle {
    /// Keeps a group open.
    ///
    /// # Errors
    /// EMFILE if too few descriptors would be left for requests.
    pub(super) fn hold(dir: OwnedFd) -> Result<Handle, Errno> {
        match descriptors::is_beyond(&dir, GROUPS_MAX) {
            true => Err(Errno::MFILE),
            false => Ok(Handle::Held(dir)),
        }
    }

    /// The group of an open directory, to be opened anew each time.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn name(dir: &OwnedFd) -> Result<Handle, Errno> {
        let inode = fstat(dir)?.st_ino;
        Ok(Handle::Named { inode })
    }

    /// Opens the group, whose path is `path`.
    ///
    /// # Errors
    /// ENODEV if it is gone; the kernel's.
    pub(super) fn open(&self, path: &Path) -> Result<Opened<'_>, Errno> {
        match self {
            Handle::Held(dir) => Ok(Opened::Held(dir)),
            Handle::Named { inode } => {
                let dir = match files::open_dir(path) {
                    // Something else may have its name.
                    Err(Errno::NOENT | Errno::NOTDIR) => return Err(Errno::NODEV),
                    dir => dir?,
                };
                match fstat(&dir)?.st_ino == *inode {
                    true => Ok(Opened::Once(dir)),
                    false => Err(Errno::NODEV),
                }
            }
        }
    }
}

impl Deref for Opened<'_> {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        match self {
            Opened::Held(dir) => dir,
            Opened::Once(dir) => dir,
        }
    }
}

impl AsFd for Opened<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::OwnGroup;

    #[test]
    fn a_later_group_of_the_same_name_is_another() {
        let own = OwnGroup::new("handle");
        let path = own.dir.join("a");
        std::fs::create_dir(&path).expect("a control group");
        let handle = Handle::name(&files::open_dir(&path).expect("it is there"));
        let handle = handle.expect("it has a number");
        let opened = handle.open(&path).expect("it is there still");
        assert!(files::read(&opened, "cgroup.procs").is_ok());
        drop(opened);
        std::fs::remove_dir(&path).expect("it is empty");
        assert_eq!(handle.open(&path).err(), Some(Errno::NODEV));
        std::fs::create_dir(&path).expect("a control group");
        assert_eq!(handle.open(&path).err(), Some(Errno::NODEV));
    }
}
