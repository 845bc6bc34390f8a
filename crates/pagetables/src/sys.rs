//! The thinnest wrappers of the system calls that this crate needs and that no safe library offers.
//!
//! Invariant: nothing here decides. Each wrapper checks what it can, hands the kernel only memory that
//! lives for the call, and gives the kernel's error number back as [`io::Error`].

mod heap;
mod start;
mod turn;
pub(crate) mod worker;

use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

pub use heap::give_large_blocks_back;
pub use start::{
    Found, become_program, block_no_signal, child_signal_waits, close_on_exec_from, found,
    is_ignored, take_child_signal,
};
use turn::has_time;
pub use turn::run_before_others;

/// The process (0 if our pid namespace has no number for it) and the user at the other end of a Unix socket, as of its connect (unix(7),
/// SO_PEERCRED). (The library's wrapper takes a pid to be never 0.)
///
/// # Errors
/// The kernel's: the socket is none.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let length = libc::socklen_t::try_from(size_of::<libc::ucred>());
    let mut length = length.map_err(io::Error::other)?;
    // SAFETY: both pointers are to values of ours that outlive the call, and the length is that of the first.
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

/// `union bpf_attr` as bytes: the kernel takes any length whose unknown tail is zero (bpf(2)).
struct Attr([u64; 16]);

impl Attr {
    const fn new() -> Attr {
        Attr([0; 16])
    }

    /// Two 32-bit members in the 64-bit word at `word`.
    const fn pair(mut self, word: usize, low: u32, high: u32) -> Attr {
        self.0[word] = low as u64 | (high as u64) << 32;
        self
    }

    const fn word(mut self, word: usize, value: u64) -> Attr {
        self.0[word] = value;
        self
    }

    fn call(&mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: the attribute block is ours, as long as we say, and outlives the call; pointers in it
        // were made by the callers below from slices that outlive the call as well.
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

    /// A command that answers with a new descriptor. bpf(2) sets close-on-exec on it by itself.
    fn descriptor(&mut self, command: libc::c_int) -> io::Result<OwnedFd> {
        let fd = RawFd::try_from(self.call(command)?).map_err(io::Error::other)?;
        // SAFETY: the kernel just made this descriptor for us, and nobody else knows its number.
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

/// An array map of one element of `bytes`, which can be mapped.
pub(crate) fn bpf_array(bytes: u32) -> io::Result<OwnedFd> {
    Attr::new()
        .pair(0, MAP_TYPE_ARRAY, 4)
        .pair(1, bytes, 1)
        .pair(2, F_MMAPABLE, 0)
        .descriptor(MAP_CREATE)
}

/// How often a program is loaded that signals interrupt.
const LOADS_MAX: u32 = 100;

/// Loads a program of type SYSCALL; `log` takes the verifier's words if it refuses. While a signal is pending the verifier ends with EAGAIN: it is
/// tried again once that was heard. (The story: of a manager that was asked to end as it began `attach` said that page tables cannot be read.)
pub(crate) fn bpf_load(code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    for _ in 1..LOADS_MAX {
        match bpf_load_once(code, log) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            done => return done,
        }
    }
    bpf_load_once(code, log)
}

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

/// Runs a program once, in this thread.
pub(crate) fn bpf_run(program: &OwnedFd) -> io::Result<()> {
    let fd = u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?;
    Attr::new().pair(0, fd, 0).call(PROG_TEST_RUN).map(drop)
}

/// A BPF array's memory, mapped. Its words change only while [`bpf_run`] runs the program that knows
/// the map; who lends a slice of it must not run the program meanwhile ([`crate::copier`] sees to it by
/// borrowing itself mutably to run).
#[derive(Debug)]
pub(crate) struct Shared {
    at: NonNull<u64>,
    words: usize,
}

// SAFETY: the mapping is the process's, not a thread's, and has one owner: a slice of it borrows that one, wherever it is.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps `words` words of the map.
    pub(crate) fn map(fd: &OwnedFd, words: usize) -> io::Result<Shared> {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place of the kernel's choice disturbs no memory of ours.
        let at = unsafe { libc::mmap(null_mut(), words * 8, prot, flags, fd.as_raw_fd(), 0) };
        match NonNull::new(at.cast::<u64>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Shared { at, words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Where it is mapped.
    pub(crate) fn address(&self) -> u64 {
        self.at.as_ptr().addr() as u64
    }

    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: mapped for `words` words as long as `self` lives; page-aligned; any bits are a u64;
        // nobody writes while the slice lives (see the type's comment).
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) }
    }

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

/// A file of one page in memory, without a name.
pub(crate) fn one_page() -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads a name that lives for the call.
    let fd = unsafe { libc::memfd_create(c"pagetide".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us, and nobody else knows its number.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let file = std::fs::File::from(fd);
    file.set_len(4096)?;
    Ok(file.into())
}

/// CPU time that all threads of a process have used, to the nanosecond, running ones included; an error
/// if there is no such process (clock_getcpuclockid(3): the clock's number is made from the pid).
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

/// What a process's memory is advised to be used for (madvise(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Read what is in swap back in: `MADV_WILLNEED`.
    WillNeed,
    /// Write it to swap now and free its frames: `MADV_PAGEOUT`.
    PageOut,
    /// Forget that it was accessed, and let it be the kernel's next to take: `MADV_COLD`.
    Cold,
}

impl Advice {
    /// The kernel's number for it.
    pub(crate) const fn number(self) -> libc::c_int {
        match self {
            Advice::WillNeed => libc::MADV_WILLNEED,
            Advice::PageOut => libc::MADV_PAGEOUT,
            Advice::Cold => libc::MADV_COLD,
        }
    }
}

/// Most ranges of one call (`UIO_MAXIOV`).
pub const ADVICE_RANGES_MAX: usize = 1024;

/// Advises about ranges of another process's memory, by its pidfd; the bytes that were gone through. It
/// stops early at the first range that is not all mapped. At most [`ADVICE_RANGES_MAX`] ranges.
///
/// # Errors
/// As process_madvise(2): no right (`EPERM`), the process is gone (`ESRCH`), nothing is mapped at the first
/// range (`ENOMEM`).
pub fn advise(pidfd: &OwnedFd, ranges: &[Range<u64>], advice: Advice) -> io::Result<u64> {
    let advice = advice.number();
    let ranges: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            // The address is the other process's: nothing here or in the kernel reads through it.
            iov_base: std::ptr::without_provenance_mut(usize::try_from(range.start).unwrap_or(0)),
            iov_len: usize::try_from(range.end - range.start).unwrap_or(0),
        })
        .collect();
    // SAFETY: the kernel reads the list, which lives for the call, and changes no memory's contents: all
    // kinds of advice only move pages between memory and swap, or on the kernel's lists.
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

/// Lets pages of our own that are locked leave again (munlock(2)): those that lie in `memory`, whole.
///
/// # Errors
/// What the kernel says: ENOMEM where that would cut too many mappings.
pub fn unlock(memory: &mut [u8]) -> io::Result<()> {
    // SAFETY: the range is ours for as long as the call, and the kernel changes no memory's contents.
    match unsafe { libc::munlock(memory.as_ptr().cast(), memory.len()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The ordinary policy, and that of children.
const ORDINARY_ALONE: libc::c_int = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;

/// Runs `work` at the lowest real-time priority, so that other programs do not take the processor
/// away while a target waits for a lock that `work` holds. Where that is not allowed (CAP_SYS_NICE), or
/// real time has a limit (RLIMIT_RTTIME), it runs as it is.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    // Asked of the kernel: musl's function of this name refuses, as it should be of a process and the kernel's is of a thread.
    let set = |policy: libc::c_int, priority: libc::c_int| {
        // SAFETY: the kernel reads one sched_param, which is one int that lives for the call; 0 is this thread.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
    };
    // SAFETY: no memory is handed over; 0 is this thread.
    let before = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    // Only the ordinary policy is known how to be put back: its one parameter is 0.
    let ordinary = [libc::SCHED_OTHER, ORDINARY_ALONE];
    let before = ordinary
        .into_iter()
        .find(|one| libc::c_long::from(*one) == before);
    let raised =
        before.filter(|_| has_time() && set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1));
    let result = work();
    // Whom a limit of real time allows to be raised, without CAP_SYS_NICE, may not take that flag away (sched(7)); all that it means to an
    // ordinary thread is that its children begin with no better nice value than 0.
    if let Some(before) = raised
        && !set(before, 0)
    {
        set(ORDINARY_ALONE, 0);
    }
    result
}

/// Switches swap on in an open file or block device that holds a swap header (swapon(2)). Areas of a
/// higher `priority`, at most 32,767, are filled first.
///
/// # Errors
/// What the kernel says: EPERM without CAP_SYS_ADMIN, EBUSY if somebody else uses the area, EINVAL if it
/// has no header or its file system cannot be swapped to.
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

/// Reads back all that is out in an area, and switches it off (swapoff(2)). A signal ends it early: the
/// area is on then, as before.
///
/// # Errors
/// What the kernel says: EPERM without CAP_SYS_ADMIN, EINVAL if the area is not on, ENOMEM if what is out
/// does not fit in memory.
pub fn swap_off(area: BorrowedFd<'_>) -> io::Result<()> {
    let path = by_descriptor(area)?;
    // SAFETY: the kernel reads a path that lives for the call.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A path that names what is open, whatever its own path names by now.
fn by_descriptor(open: BorrowedFd<'_>) -> io::Result<CString> {
    CString::new(format!("/proc/self/fd/{}", open.as_raw_fd())).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_swap_is_not_switched() {
        let page = one_page().expect("a page");
        assert!(swap_on(page.as_fd(), u16::MAX).is_err());
        assert!(swap_off(page.as_fd()).is_err());
    }

    #[test]
    fn cpu_time_of_a_process_that_works_grows() {
        let before = cpu_time(std::process::id()).expect("we are here");
        let mut sum = 0u64;
        while cpu_time(std::process::id()).expect("we are here") == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu_time(4_194_305).is_err(), "above any pid");
    }

    #[test]
    fn the_priority_is_put_back() {
        let policy = || {
            // SAFETY: no memory is handed over.
            unsafe { libc::sched_getscheduler(0) }
        };
        let before = policy();
        uninterrupted(policy);
        assert_eq!(policy(), before);
    }

    /// Who is raised by a limit of real time, without CAP_SYS_NICE, comes back, too: it stayed at the priority of real time for ever.
    #[test]
    fn the_priority_is_put_back_without_the_capability() {
        let policy = || {
            // SAFETY: no memory is handed over.
            unsafe { libc::sched_getscheduler(0) }
        };
        let of_a_thread = move || {
            let limit = libc::rlimit {
                rlim_cur: 1,
                rlim_max: 1,
            };
            // SAFETY: the kernel reads a limit that lives for the call.
            let is_limited = unsafe { libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const limit) == 0 };
            // What the kernel allows a thread with the capability at all.
            let raised = uninterrupted(policy);
            if !is_limited || !drop_nice() {
                return;
            }
            for turn in 0..2 {
                assert_eq!(uninterrupted(policy), raised, "turn {turn}");
                let left = policy() & !libc::SCHED_RESET_ON_FORK;
                assert_eq!(left, libc::SCHED_OTHER, "turn {turn}");
            }
        };
        std::thread::spawn(of_a_thread)
            .join()
            .expect("it does not panic");
    }

    /// Takes CAP_SYS_NICE away from this thread; whether it could be.
    fn drop_nice() -> bool {
        const VERSION: u32 = 0x2008_0522;
        const SYS_NICE: u32 = 23;
        let header = [VERSION, 0];
        // Effective, permitted and inheritable, of the low 32 capabilities and then of the others.
        let mut sets = [0_u32; 6];
        // SAFETY: the kernel reads the header and writes six words, all of which live for the call.
        let got = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) };
        sets[0] &= !(1 << SYS_NICE);
        // SAFETY: the kernel reads both, which live for the call, and changes this thread alone.
        let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
        got == 0 && set == 0
    }
}
