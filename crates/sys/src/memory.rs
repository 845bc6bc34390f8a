//! Unlocks pages that this process has locked in memory.

use std::io;

/// Unlocks the pages of `memory`, which this process has locked (munlock(2)): the kernel may
/// reclaim them again.
///
/// # Errors
/// The kernel's: ENOMEM if the process would then have more mappings than the limit allows.
pub fn unlock(memory: &mut [u8]) -> io::Result<()> {
    // SAFETY: the range is ours for as long as the call, and the kernel changes no memory's
    // contents.
    match unsafe { libc::munlock(memory.as_ptr().cast(), memory.len()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
