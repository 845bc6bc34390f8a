//! Detects a lack of file descriptors: by the number of a new descriptor, or by an error.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Returns whether this descriptor's number is at or beyond a part of the limit of open files; `(3,
/// 4)` means three quarters. The kernel assigns the lowest free number, so the number of a new
/// descriptor shows how many are in use.
pub(crate) fn is_beyond(file: &OwnedFd, (part, of): (u64, u64)) -> bool {
    let number = u64::from(file.as_raw_fd().unsigned_abs());
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| number >= limit.saturating_mul(part) / of)
}

/// Hint in errors for a lack of descriptors.
pub(crate) const LACK_HINT: &str =
    "raise the limit of open files (ulimit -n), or end the programs that hold them";

/// Returns whether the error means that the kernel has no descriptors or no memory left. The failed
/// call then says nothing about the file, and may succeed later.
pub(crate) fn is_lack(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
