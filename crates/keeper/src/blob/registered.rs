//! Registering a range, and whether one is registered now, asked without changing anything.
//!
//! The kernel checks an install in this order: is the address space changing, does the whole range
//! lie in one mapping that is registered, can the bytes be read. An install whose source is never
//! mapped therefore installs nothing, and its error tells which check it failed.
//!
//! Invariant: what was registered when asked stays so, or an event of its unmapping is outstanding
//! until we read it, and as long as one is, nothing can be moved out. So to ask once before moves is
//! enough, however much later they are made, if no event is read in between.

use super::install::copy;
use super::sys;
use super::table::PAGE;
use super::view::{Keeper, View};
use keeper::layout::CHUNK;
pub(super) use keeper::order::Registered;
use uffd::abi::{Range, UFFDIO_REGISTER, UFFDIO_REGISTER_MODE_MISSING, UffdioRegister, errno};

/// Registers `start..end` for missing pages; 0 or a negative error number.
pub(super) fn register(uffd: i32, start: u64, end: u64) -> i64 {
    let range = Range {
        start,
        len: end - start,
    };
    let mut arg = UffdioRegister {
        range,
        mode: UFFDIO_REGISTER_MODE_MISSING,
        ioctls: 0,
    };
    sys::ioctl(uffd, UFFDIO_REGISTER, &mut arg)
}

/// A page of ours that cannot be read: behind limbo, where the reservation has room left.
pub(super) fn unreadable(k: &Keeper) -> u64 {
    k.limbo + k.limbo_chunks as u64 * CHUNK
}

/// Asks about `start..end` of an address space.
pub(super) fn ask(k: &Keeper, view: View, start: u64, end: u64) -> Registered {
    ask_for(k.uffd_of(view), unreadable(k), start, end)
}

/// The same, with what it takes.
pub(super) fn ask_for(uffd: i32, unreadable: u64, start: u64, end: u64) -> Registered {
    match copy(uffd, start, unreadable, end - start) {
        // EEXIST: a huge page is there, which is looked at before the bytes are read.
        (0, errno::EFAULT | errno::EEXIST) => Registered::Yes,
        (0, errno::EAGAIN) => Registered::Changing,
        (0, errno::ESRCH) => Registered::Gone,
        _ => Registered::No,
    }
}

/// Where to ask when any place will do.
const SOMEWHERE: u64 = 0x10000;

/// Whether no event of an address space is outstanding: the first thing an install looks at.
pub(super) fn quiet(k: &Keeper, view: View) -> bool {
    ask(k, view, SOMEWHERE, SOMEWHERE + PAGE) != Registered::Changing
}

/// Whether an address space has ended.
pub(super) fn gone(k: &Keeper, view: View) -> bool {
    ask(k, view, SOMEWHERE, SOMEWHERE + PAGE) == Registered::Gone
}
