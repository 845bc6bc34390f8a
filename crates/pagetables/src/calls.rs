//! Thin wrappers of the system calls that this crate needs and that no safe library offers.
//!
//! Invariant: nothing here decides. Each wrapper checks its arguments as far as it can, passes the
//! kernel only memory that lives for the call, and returns the kernel's error number as
//! [`io::Error`].

pub(crate) mod worker;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

/// `union bpf_attr`, the argument of bpf(2), as words. The kernel accepts any length if the bytes
/// that it does not know are zero.
struct Attr([u64; 16]);

impl Attr {
    const fn new() -> Attr {
        Attr([0; 16])
    }

    /// Sets the 64-bit word at index `word` from two 32-bit members.
    const fn pair(mut self, word: usize, low: u32, high: u32) -> Attr {
        self.0[word] = low as u64 | (high as u64) << 32;
        self
    }

    /// Sets the 64-bit word at index `word`.
    const fn word(mut self, word: usize, value: u64) -> Attr {
        self.0[word] = value;
        self
    }

    /// Makes the system call bpf(2).
    fn call(&mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: the attribute block is ours, has the length that we pass, and outlives the call;
        // the callers below made the pointers in it from slices that outlive the call as well.
        let done = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                self.0.as_mut_ptr(),
                size_of_val(&self.0),
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(done)
    }

    /// Runs a command that returns a new descriptor, which bpf(2) makes close-on-exec.
    fn descriptor(&mut self, command: libc::c_int) -> io::Result<OwnedFd> {
        let fd = RawFd::try_from(self.call(command)?).map_err(io::Error::other)?;
        // SAFETY: the kernel just made this descriptor for us, and no other code knows its number.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const MAP_TYPE_ARRAY: u32 = 2;
const F_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SYSCALL: u32 = 31;
const F_SLEEPABLE: u32 = 1 << 4;

/// Creates a BPF array with one element of `bytes` bytes, which can be mapped into memory.
pub(crate) fn bpf_array(bytes: u32) -> io::Result<OwnedFd> {
    Attr::new()
        .pair(0, MAP_TYPE_ARRAY, 4)
        .pair(1, bytes, 1)
        .pair(2, F_MMAPABLE, 0)
        .descriptor(MAP_CREATE)
}

/// Number of tries to load a program, since signals may interrupt a try.
const LOADS_MAX: u32 = 100;

/// Loads a BPF program of type SYSCALL. If the verifier refuses it, `log` receives the verifier's
/// messages. The verifier fails with EAGAIN while a signal is pending: this function tries again.
pub(crate) fn bpf_load(code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    for _ in 1..LOADS_MAX {
        match bpf_load_once(code, log) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            done => return done,
        }
    }
    bpf_load_once(code, log)
}

/// Tries once to load a program ([`bpf_load`]).
fn bpf_load_once(code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    // The program only calls helpers that any GPL-compatible licence may call.
    let licence = c"Dual MIT/GPL";
    let count = u32::try_from(code.len()).map_err(io::Error::other)?;
    let size = u32::try_from(log.len()).map_err(io::Error::other)?;
    Attr::new()
        .pair(0, PROG_TYPE_SYSCALL, count)
        .word(1, code.as_ptr().addr() as u64)
        .word(2, licence.as_ptr().addr() as u64)
        .pair(3, u32::from(size > 0), size)
        .word(
            4,
            if size > 0 {
                log.as_mut_ptr().expose_provenance() as u64
            } else {
                0
            },
        )
        .pair(5, 0, F_SLEEPABLE)
        .descriptor(PROG_LOAD)
}

/// Runs a BPF program once, in the calling thread.
pub(crate) fn bpf_run(program: &OwnedFd) -> io::Result<()> {
    let fd = u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?;
    Attr::new().pair(0, fd, 0).call(PROG_TEST_RUN).map(drop)
}

/// The mapped memory of a BPF array. Its words change only while [`bpf_run`] runs the program that
/// uses the array, so no slice of it may be borrowed meanwhile. [`crate::copier`] ensures that:
/// running borrows the copier mutably.
#[derive(Debug)]
pub(crate) struct Shared {
    at: NonNull<u64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and has one owner. Every slice of it
// borrows that owner, on whatever thread the owner is.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps the first `words` words of the array or file `fd`.
    pub(crate) fn map(fd: &OwnedFd, words: usize) -> io::Result<Shared> {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place of the kernel's choice disturbs no memory of ours.
        let at = unsafe { libc::mmap(null_mut(), words * 8, prot, flags, fd.as_raw_fd(), 0) };
        match NonNull::new(at.cast::<u64>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Shared { at, words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The address of the mapping in this process.
    pub(crate) fn address(&self) -> u64 {
        self.at.as_ptr().addr() as u64
    }

    /// The mapped words.
    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: mapped for `words` words as long as `self` lives; page-aligned; any bits are a
        // u64; no code writes while the slice lives (see the type's comment).
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) }
    }

    /// The mapped words, to be changed.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `&mut self` makes it the only slice.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.words) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.words * 8) };
    }
}

/// The first page of a file, mapped without the right to access it. It serves only to make the
/// kernel create a structure of the mapping (`vm_area_struct`), which [`crate::noreuse`] reads.
#[derive(Debug)]
pub(crate) struct MappedFile(NonNull<libc::c_void>);

impl MappedFile {
    const BYTES: usize = 4096;

    /// Maps the first page of `file`.
    pub(crate) fn map(file: &File) -> io::Result<MappedFile> {
        let (prot, flags, fd) = (libc::PROT_NONE, libc::MAP_PRIVATE, file.as_raw_fd());
        // SAFETY: a new mapping at a place of the kernel's choice disturbs no memory of ours.
        let at = unsafe { libc::mmap(null_mut(), Self::BYTES, prot, flags, fd, 0) };
        match NonNull::new(at) {
            Some(at) if at.as_ptr() != libc::MAP_FAILED => Ok(MappedFile(at)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The address of the mapping in this process.
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr().addr() as u64
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no reference to its memory was ever made.
        unsafe { libc::munmap(self.0.as_ptr(), Self::BYTES) };
    }
}

/// Gives (`is_once`) or withdraws the advice that the pages of this open file are used only once:
/// `POSIX_FADV_NOREUSE` or `POSIX_FADV_NORMAL`.
pub(crate) fn advise_used_once(file: &File, is_once: bool) -> io::Result<()> {
    let advice = match is_once {
        true => libc::POSIX_FADV_NOREUSE,
        false => libc::POSIX_FADV_NORMAL,
    };
    // SAFETY: the call takes a descriptor and numbers, and changes only what the kernel notes about
    // the open file.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Creates a file of one page in memory (memfd).
pub(crate) fn one_page() -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads a name that lives for the call.
    let fd = unsafe { libc::memfd_create(c"pagetide".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us, and no other code knows its number.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let file = File::from(fd);
    file.set_len(4096)?;
    Ok(file.into())
}

/// Returns the CPU time that all threads of a process have used, including running threads, to the
/// nanosecond. The clock's number is made from the pid (clock_getcpuclockid(3)).
///
/// # Errors
/// There is no such process.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    const CPUCLOCK_SCHED: i32 = 2;
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let clock = (!pid << 3) | CPUCLOCK_SCHED;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec to a place that is ours.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

/// Advice about the future use of a process's memory (madvise(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// `MADV_WILLNEED`: read swapped-out pages in again.
    WillNeed,
    /// `MADV_PAGEOUT`: write the pages to swap or to their file now, and free their frames.
    PageOut,
    /// `MADV_COLD`: deactivate the pages, so that the kernel reclaims them first.
    Cold,
}

impl Advice {
    /// The kernel's number for this advice.
    pub(crate) const fn number(self) -> libc::c_int {
        match self {
            Advice::WillNeed => libc::MADV_WILLNEED,
            Advice::PageOut => libc::MADV_PAGEOUT,
            Advice::Cold => libc::MADV_COLD,
        }
    }
}

/// Maximum number of ranges in one call of [`advise`] (`UIO_MAXIOV`).
pub const ADVICE_RANGES_MAX: usize = 1024;

/// Advises the kernel about ranges of another process's memory, by its pidfd; returns the number of
/// bytes that the kernel processed. The kernel stops at the first range that is not all mapped.
/// Pass at most [`ADVICE_RANGES_MAX`] ranges.
///
/// # Errors
/// Those of process_madvise(2): no right (`EPERM`), the process is gone (`ESRCH`), nothing is
/// mapped at the first range (`ENOMEM`).
pub fn advise(pidfd: &OwnedFd, ranges: &[Range<u64>], advice: Advice) -> io::Result<u64> {
    let advice = advice.number();
    let ranges: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            // The address is one in the other process: neither this code nor the kernel uses it as
            // an address in this process.
            iov_base: std::ptr::without_provenance_mut(usize::try_from(range.start).unwrap_or(0)),
            iov_len: usize::try_from(range.end - range.start).unwrap_or(0),
        })
        .collect();
    // SAFETY: the kernel reads the list, which lives for the call, and changes no memory's
    // contents: all kinds of advice only move pages between memory and swap, or on the kernel's
    // lists.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            ranges.as_ptr(),
            ranges.len(),
            advice,
            0,
        )
    };
    u64::try_from(done).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_a_process_that_works_grows() {
        let before = cpu_time(std::process::id()).expect("we are here");
        let mut sum = 0u64;
        while cpu_time(std::process::id()).expect("we are here") == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu_time(4_194_305).is_err(), "above any pid");
    }
}
