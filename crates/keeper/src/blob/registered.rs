//! Whether a range is registered now, asked without changing anything.
//!
//! The kernel checks an install in this order: is the address space changing, does the whole range
//! lie in one mapping that is registered, can the bytes be read. An install whose source is never
//! mapped therefore installs nothing, and its error tells which check it failed.
//!
//! Invariant: what was registered when asked stays so, or an event of its unmapping is outstanding
//! until we read it, and as long as one is, nothing can be moved out. So to ask once before moves is
//! enough, however much later they are made, if no event is read in between.

use super::install::copy;
use super::queue::NOWHERE;
use uffd::abi::errno;

/// What the kernel said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    /// All of it, in one mapping.
    Yes,
    /// Not all of it, or in several mappings.
    No,
    /// Events are outstanding.
    Changing,
}

/// Asks about `start..end`, for the address space of `uffd`.
pub(super) fn ask(uffd: i32, start: u64, end: u64) -> Registered {
    match copy(uffd, start, NOWHERE, end - start) {
        // EEXIST: a huge page is there, which is looked at before the bytes are read.
        (0, errno::EFAULT | errno::EEXIST) => Registered::Yes,
        (0, errno::EAGAIN) => Registered::Changing,
        _ => Registered::No,
    }
}
