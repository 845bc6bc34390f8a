//! The process at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns the process id, then the user id, of the process at the other end of a Unix socket, as
/// they were when the socket was connected (unix(7), SO_PEERCRED). The process id is 0 if the
/// process is not visible in our pid namespace; the standard library's function cannot return that.
///
/// # Errors
/// The kernel's: the descriptor is not a socket.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let length = libc::socklen_t::try_from(size_of::<libc::ucred>());
    let mut length = length.map_err(io::Error::other)?;
    // SAFETY: both pointers are to values of ours that outlive the call, and `length` is the size
    // of `peer`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut peer).cast(),
            &raw mut length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((peer.pid.unsigned_abs(), peer.uid))
}
