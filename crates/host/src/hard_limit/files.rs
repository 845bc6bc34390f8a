//! Reads and writes a control group's files through the open descriptor of its directory.
//!
//! Invariant: a write goes to the cgroup that was opened, never to a later cgroup with the same
//! path.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::system::cgroup::walk;
use crate::system::proc::read_all;

/// Mode of the directories that we make. Other users may pass through a directory and read files in
/// it by name, but may not open it. A process that can open a directory can lock it, and the holder
/// of the lock counts as the manager.
pub(super) const PASSED_THROUGH: u32 = 0o711;

/// Opens a directory; a lock on it belongs to the returned descriptor only.
pub(super) fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    walk::open(path)
}

/// Opens the directory once more. The new descriptor does not hold the locks of `dir`.
pub(super) fn open_again(dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(dir, c".", flags, Mode::empty())
}

/// Returns the content of the file `name` of an open cgroup.
pub(super) fn read(dir: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    let mut text = Vec::with_capacity(4096);
    read_all(&file, usize::MAX, &mut text)?;
    Ok(text)
}

/// Writes the text with one write(2), as control files require.
pub(super) fn write(dir: &OwnedFd, name: &str, text: &str) -> Result<(), Errno> {
    // Control groups contain no symbolic links. In any other directory a link could lead anywhere.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(drop)
}

/// Returns the kind of an error. ENODEV (the cgroup was removed while it was open) is "not found".
pub(super) fn kind(errno: Errno) -> io::ErrorKind {
    match errno {
        Errno::NODEV => io::ErrorKind::NotFound,
        Errno::OPNOTSUPP => io::ErrorKind::Unsupported,
        // The host or this process has no free descriptors at the moment.
        Errno::MFILE | Errno::NFILE => io::ErrorKind::OutOfMemory,
        errno => io::Error::from(errno).kind(),
    }
}
