//! Small questions about processes and time that /proc does not answer.

use std::io;

/// Address of the robust-futex list head of thread `tid`, which glibc and musl keep in the
/// thread's control block; `None` if it has none.
///
/// # Errors
/// EPERM without ptrace permission, ESRCH.
pub fn robust_list(tid: i32) -> io::Result<Option<u64>> {
    let (mut head, mut len) = (0u64, 0usize);
    // SAFETY: two live words to write to.
    let r = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut len) };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok((head != 0).then_some(head))
    }
}

/// Whether two processes share one address space.
#[must_use]
pub fn same_memory(pid1: i32, pid2: i32) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_kcmp, pid1, pid2, KCMP_VM, 0, 0) == 0 }
}

/// Nanoseconds of CLOCK_MONOTONIC, the clock of the heartbeat.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live timespec; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}

/// The processor's time-stamp counter, the clock of the fault histogram.
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has one.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Processor time of this process so far, nanoseconds.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live timespec; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}

/// Sends a signal.
///
/// # Errors
/// ESRCH, EPERM.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::kill(pid, signal) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
