//! Descriptors of other processes: pidfds, duplicates, passing them on.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

fn owned(r: i64) -> io::Result<OwnedFd> {
    match i32::try_from(r) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor that names process `pid`.
///
/// # Errors
/// ESRCH if there is none.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Our own duplicate of descriptor `number` of the process.
///
/// # Errors
/// EBADF if it has none of that number, EPERM without ptrace permission, ESRCH.
pub fn duplicate(pidfd: &OwnedFd, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) })
}

/// Sends a signal to the very process that the descriptor names.
///
/// # Errors
/// ESRCH if it is gone.
pub fn signal(pidfd: &OwnedFd, signal: i32) -> io::Result<()> {
    let (fd, none) = (pidfd.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: a null siginfo means the default one.
    let r = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, 0) };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Waits until the descriptor is readable (a pidfd: until the process has ended).
#[must_use]
pub fn readable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut poll, 1, ms) > 0 }
}

/// Sends a descriptor over a Unix socket.
///
/// # Errors
/// Those of sendmsg(2).
pub fn send(socket: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [0u8; 8];
    let mut iov = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // cmsghdr (length 20, SOL_SOCKET, SCM_RIGHTS) and the descriptor, padded to 24 bytes.
    let rights = u64::from(libc::SOL_SOCKET.unsigned_abs())
        | u64::from(libc::SCM_RIGHTS.unsigned_abs()) << 32;
    let mut control = [20u64, rights, u64::from(fd.as_raw_fd().unsigned_abs())];
    // SAFETY: all-zero is a valid msghdr.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.as_mut_ptr().cast();
    msg.msg_controllen = 24;
    // SAFETY: the message points to live buffers of this frame.
    let r = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const msg, libc::MSG_NOSIGNAL) };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Adds one to an eventfd: wakes who polls it.
pub fn kick(eventfd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes. A full counter (EAGAIN) wakes as well.
    unsafe { libc::write(eventfd.as_raw_fd(), one.as_ptr().cast(), 8) };
}

/// Raises the limit of open descriptors of a process to its hard limit, or to `want` if allowed.
///
/// # Errors
/// EPERM, ESRCH.
pub fn raise_nofile(pid: i32, want: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let none = std::ptr::null();
    // SAFETY: a live rlimit to write to.
    if unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, none, &raw mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for max in [limit.rlim_max.max(want), limit.rlim_max] {
        let new = libc::rlimit {
            rlim_cur: max,
            rlim_max: max,
        };
        let out = std::ptr::null_mut();
        // SAFETY: a live rlimit to read from.
        if unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const new, out) } == 0 {
            return Ok(());
        }
    }
    Err(io::Error::last_os_error())
}
