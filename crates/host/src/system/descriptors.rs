//! How many descriptors are left (they are given out from below, so the number of one tells), and
//! whether an error means that they are lacking.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Whether it is beyond this part, `(3, 4)` for three quarters, of those that this process may have.
pub(crate) fn is_beyond(file: &OwnedFd, (part, of): (u64, u64)) -> bool {
    let number = u64::from(file.as_raw_fd().unsigned_abs());
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| number >= limit.saturating_mul(part) / of)
}

/// What to do where descriptors are lacking.
pub(crate) const LACK_HINT: &str =
    "raise the limit of open files (ulimit -n), or end what holds them";

/// Whether the kernel lacks descriptors or memory just now: what failed so may succeed later, and
/// says nothing of what was asked for.
pub(crate) fn is_lack(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
