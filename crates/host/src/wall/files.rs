//! A control group's files, by its open directory.
//!
//! Invariant: what is written goes to the group that was opened, never to a later one of the same name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::system::cgroup::walk;
use crate::system::proc::read_all;

/// Others may go through the directory of a group of ours and read its files by name, and not open it: whoever can, can lock it, and who holds
/// the lock is its manager.
pub(super) const PASSED_THROUGH: u32 = 0o711;

/// Opened by itself, so that a lock on it is nobody else's.
pub(super) fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    walk::open(path)
}

/// The same directory, opened once more: locks of the first are not held through it.
pub(super) fn open_again(dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(dir, c".", flags, Mode::empty())
}

pub(super) fn read(dir: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    let mut text = Vec::with_capacity(4096);
    read_all(&file, usize::MAX, &mut text)?;
    Ok(text)
}

/// One write(2): these files take a value whole.
pub(super) fn write(dir: &OwnedFd, name: &str, text: &str) -> Result<(), Errno> {
    // In a control group there are no links; in any other directory they could lead anywhere.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(drop)
}

/// A group that was removed while it is open has no device (ENODEV): it is not found.
pub(super) fn kind(errno: Errno) -> io::ErrorKind {
    match errno {
        Errno::NODEV => io::ErrorKind::NotFound,
        Errno::OPNOTSUPP => io::ErrorKind::Unsupported,
        // Of the host, or of this process: there is none just now.
        Errno::MFILE | Errno::NFILE => io::ErrorKind::OutOfMemory,
        errno => io::Error::from(errno).kind(),
    }
}
