//! How we access a control group: through a descriptor that stays open, or by its path.
//!
//! Invariant: reads and writes always go to the same cgroup, never to a later one with the same
//! path. After opening a path we compare the inode number, which the kernel never reuses for a
//! cgroup. Cgroups of our own stay open, because their lock needs a descriptor. The host's own
//! cgroups do not: any user may make thousands of them, and each would use one of our descriptors.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::fstat;
use rustix::io::Errno;

use super::files;
use crate::system::descriptors;

/// The part of our descriptors, as numerator and denominator, that our own control groups may use.
/// The rest is for requests (control socket, HTTP) and for the files that a response needs.
const GROUPS_MAX: (u64, u64) = (7, 8);

/// How a control group is accessed.
#[derive(Debug)]
pub(super) enum Handle {
    /// Through a descriptor that stays open.
    Held(OwnedFd),
    /// By the cgroup's path, which is opened for each use.
    Named {
        /// The inode number of its directory.
        inode: u64,
    },
}

/// An open directory of a cgroup.
pub(super) enum Opened<'a> {
    /// A directory that stays open.
    Held(&'a OwnedFd),
    /// A directory that was opened for a single use; dropping this value closes the directory.
    Once(OwnedFd),
}

impl Handle {
    /// Keeps a control group open.
    ///
    /// # Errors
    /// EMFILE if too few descriptors would be left for requests.
    pub(super) fn hold(dir: OwnedFd) -> Result<Handle, Errno> {
        match descriptors::is_beyond(&dir, GROUPS_MAX) {
            true => Err(Errno::MFILE),
            false => Ok(Handle::Held(dir)),
        }
    }

    /// Returns a handle by inode number for the cgroup of an open directory; each use opens the
    /// path anew.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn name(dir: &OwnedFd) -> Result<Handle, Errno> {
        let inode = fstat(dir)?.st_ino;
        Ok(Handle::Named { inode })
    }

    /// Opens the cgroup. `path`: the cgroup's path, which is used if the cgroup is not open
    /// already.
    ///
    /// # Errors
    /// ENODEV if the cgroup is gone; otherwise the kernel's error.
    pub(super) fn open(&self, path: &Path) -> Result<Opened<'_>, Errno> {
        match self {
            Handle::Held(dir) => Ok(Opened::Held(dir)),
            Handle::Named { inode } => {
                let dir = match files::open_dir(path) {
                    // Another file, which is not a directory, may have this name now.
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
