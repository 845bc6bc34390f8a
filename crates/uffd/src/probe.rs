//! What userfaultfd offers to this process, found by asking the kernel.

use crate::abi::{UFFD_API, UFFDIO_API, UffdioApi};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How to ask for a userfaultfd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The system call, for faults of kernel mode too.
    SystemCall,
    /// `/dev/userfaultfd`.
    Device,
}

/// Makes a userfaultfd of this process (for probing only).
///
/// # Errors
/// EPERM without the privilege, ENOSYS without the feature, those of open(2) for the device.
pub fn open(source: Source) -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let r = match source {
        // SAFETY: no pointers.
        Source::SystemCall => unsafe { libc::syscall(libc::SYS_userfaultfd, flags) },
        Source::Device => {
            let device = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/userfaultfd")?;
            // SAFETY: the request takes its flags as a plain number.
            let r =
                unsafe { libc::ioctl(device.as_raw_fd(), crate::abi::USERFAULTFD_IOC_NEW, flags) };
            i64::from(r)
        }
    };
    match i32::try_from(r) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks for features; what the kernel has in all.
///
/// # Errors
/// EPERM for fork events without `CAP_SYS_PTRACE`, EINVAL for features it does not know.
pub fn handshake(fd: &OwnedFd, features: u64) -> io::Result<u64> {
    let mut api = UffdioApi {
        api: UFFD_API,
        features,
        ioctls: 0,
    };
    // SAFETY: the request's structure.
    let r = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &raw mut api) };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(api.features)
    }
}

/// Moves a page of this process aside and back by `UFFDIO_MOVE`, and compares its bytes.
///
/// # Errors
/// EINVAL before Linux 6.8; those of [`open`].
pub fn move_page() -> io::Result<()> {
    use crate::abi::{UFFDIO_MOVE, UFFDIO_REGISTER, UffdioCopy, UffdioRegister};
    const PAGE: usize = 4096;
    let uffd = open(Source::SystemCall).or_else(|_| open(Source::Device))?;
    handshake(&uffd, 0)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping of two pages, unmapped below.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, prot, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = base as u64;
    let range = crate::abi::Range {
        start,
        len: 2 * PAGE as u64,
    };
    let call = |request: u64, arg: *mut libc::c_void| {
        // SAFETY: each request below comes with its own structure.
        let r = unsafe { libc::ioctl(uffd.as_raw_fd(), request, arg) };
        if r < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: the first page is ours and writable.
    unsafe { base.cast::<u8>().write_volatile(42) };
    let mut register = UffdioRegister {
        range,
        mode: 1,
        ioctls: 0,
    };
    let there = UffdioCopy {
        dst: start + 4096,
        src: start,
        len: 4096,
        ..UffdioCopy::default()
    };
    let mut moved = there;
    let mut back = UffdioCopy {
        dst: start,
        src: start + 4096,
        ..there
    };
    let done = call(UFFDIO_REGISTER, (&raw mut register).cast())
        .and_then(|()| call(UFFDIO_MOVE, (&raw mut moved).cast()))
        .and_then(|()| call(UFFDIO_MOVE, (&raw mut back).cast()))
        .map(|()| {
            // SAFETY: the page was just moved back, so it is present.
            unsafe { base.cast::<u8>().read_volatile() }
        });
    // SAFETY: mapped above, not used afterwards.
    unsafe { libc::munmap(base, 2 * PAGE) };
    match done {
        Ok(42) => Ok(()),
        Ok(_) => Err(io::Error::other("the page came back with other bytes")),
        Err(e) => Err(e),
    }
}

/// Scans a range of this process by `PAGEMAP_SCAN`.
///
/// # Errors
/// ENOTTY before Linux 6.7; those of opening /proc/self/pagemap.
pub fn pagemap_scan() -> io::Result<()> {
    let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let here = (&raw const pid).addr() as u64 / 4096 * 4096;
    let mask = crate::abi::page_is::PRESENT;
    let query = crate::pagemap::Query {
        mask,
        inverted: 0,
        report: 0,
    };
    let mut found = 0;
    crate::pagemap::Pagemap::open(pid)?.scan(here, here + 4096, query, |_, _, _| found += 1)?;
    if found == 1 {
        Ok(())
    } else {
        Err(io::Error::other("the page of our own stack is not seen"))
    }
}

/// Compares this process's memory with itself by kcmp(2).
///
/// # Errors
/// ENOSYS without CONFIG_KCMP.
pub fn kcmp() -> io::Result<()> {
    let me = std::process::id();
    // SAFETY: no pointers.
    let r = unsafe { libc::syscall(libc::SYS_kcmp, me, me, 1, 0, 0) };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
