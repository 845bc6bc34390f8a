//! Enables and disables swap areas. The caller passes an open descriptor of the area.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Enables swap on an open file or block device that has a swap header (swapon(2)). The kernel
/// fills areas with a higher `priority` first; above 32,767 it counts as 32,767.
///
/// # Errors
/// The kernel's: EPERM without CAP_SYS_ADMIN, EBUSY if the area is in use, EINVAL if it has no
/// header or its file system cannot hold swap areas.
pub fn swap_on(area: BorrowedFd<'_>, priority: u16) -> io::Result<()> {
    const PREFER: libc::c_int = 0x8000;
    const PRIORITY_MASK: u16 = 0x7fff;
    let path = by_descriptor(area)?;
    let flags = PREFER | libc::c_int::from(priority.min(PRIORITY_MASK));
    // SAFETY: the kernel reads a path that lives for the call.
    match unsafe { libc::swapon(path.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads all swapped-out pages of an area back in, and disables the area (swapoff(2)). A signal
/// ends the call early; then the area stays enabled.
///
/// # Errors
/// The kernel's: EPERM without CAP_SYS_ADMIN, EINVAL if the area is not enabled, ENOMEM if its
/// pages do not fit in memory.
pub fn swap_off(area: BorrowedFd<'_>) -> io::Result<()> {
    let path = by_descriptor(area)?;
    // SAFETY: the kernel reads a path that lives for the call.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a path that leads to the open file even if the file was renamed or replaced meanwhile.
fn by_descriptor(open: BorrowedFd<'_>) -> io::Result<CString> {
    CString::new(format!("/proc/self/fd/{}", open.as_raw_fd())).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_without_a_swap_header_is_refused() {
        let exe = File::open("/proc/self/exe").expect("this program");
        assert!(swap_on(exe.as_fd(), u16::MAX).is_err());
        assert!(swap_off(exe.as_fd()).is_err());
    }
}
