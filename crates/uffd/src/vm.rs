//! Another process's memory: reading, writing, and making pages exclusive without changing them.

use libc::{c_ulong, iovec, pid_t};
use std::io;

/// Nothing is lost: this crate is for 64-bit machines only.
fn bytes(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

fn len_of(r: isize) -> io::Result<usize> {
    usize::try_from(r).map_err(|_| io::Error::last_os_error())
}

/// Reads from `addr` of process `pid` into `buf`; bytes read, short where memory ends.
///
/// # Errors
/// EFAULT if not even the first page can be read, ESRCH, EPERM.
pub fn read(pid: i32, addr: u64, buf: &mut [u8]) -> io::Result<usize> {
    let local = iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    let remote = iovec {
        iov_base: addr as *mut _,
        iov_len: buf.len(),
    };
    // SAFETY: the local buffer is valid for its length; the remote address is the kernel's to check.
    len_of(unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Reads several ranges `(address, bytes)` back to back into `buf`; bytes read.
///
/// # Errors
/// As [`read`].
pub fn read_ranges(pid: i32, ranges: &[(u64, u64)], buf: &mut [u8]) -> io::Result<usize> {
    let local = iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    let remote: Vec<iovec> = ranges
        .iter()
        .map(|&(addr, len)| iovec {
            iov_base: addr as *mut _,
            iov_len: bytes(len),
        })
        .collect();
    let n = remote.len() as c_ulong;
    // SAFETY: as in `read`; the vector of remote ranges lives through the call.
    len_of(unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), n, 0) })
}

/// Writes `buf` to `addr` of process `pid`; bytes written.
///
/// # Errors
/// As [`read`].
pub fn write(pid: i32, addr: u64, buf: &[u8]) -> io::Result<usize> {
    let local = iovec {
        iov_base: buf.as_ptr().cast_mut().cast(),
        iov_len: buf.len(),
    };
    let remote = iovec {
        iov_base: addr as *mut _,
        iov_len: buf.len(),
    };
    // SAFETY: the local buffer is only read; the remote address is the kernel's to check.
    len_of(unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Makes the pages of `start..start + len` of `pid` exclusive and writable again (as a write by
/// the program would), without changing a byte: a write whose source cannot be read makes the
/// kernel take the pages for writing and then copy nothing.
///
/// Blocks while a page is missing until its keeper has brought it.
pub fn unshare(pid: pid_t, start: u64, len: u64) {
    // One call takes as many pages as it is asked for, up to what the kernel batches; no source
    // byte is ever readable at address 0.
    const BATCH: u64 = 256 * 4096;
    let mut at = start;
    while at < start + len {
        let n = BATCH.min(start + len - at);
        let local = iovec {
            iov_base: std::ptr::without_provenance_mut(4096),
            iov_len: bytes(n),
        };
        let remote = iovec {
            iov_base: at as *mut _,
            iov_len: bytes(n),
        };
        // SAFETY: the local range is never mapped (below mmap_min_addr), so nothing is read from
        // it and nothing is written to the target; the call fails with EFAULT after pinning.
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
        at += n;
    }
}
