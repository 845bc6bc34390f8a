//! How many descriptors are left. They are given out from below, so the number of one tells.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Resource, getrlimit};

/// Whether it is beyond this part, `(3, 4)` for three quarters, of those that this process may have.
pub(crate) fn is_beyond(file: &OwnedFd, (part, of): (u64, u64)) -> bool {
    let number = u64::from(file.as_raw_fd().unsigned_abs());
    let limit = getrlimit(Resource::Nofile).current;
    limit.is_some_and(|limit| number >= limit.saturating_mul(part) / of)
}
