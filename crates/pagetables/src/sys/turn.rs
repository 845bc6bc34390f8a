//! Whose turn it is: a thread that must run within a millisecond.
//!
//! Invariant: no thread has real-time priority where the time of such threads has a limit: beyond
//! it the kernel ends the process by a signal.

/// Puts the calling thread before all that have no real-time priority (SCHED_FIFO, the lowest priority of those; its children are ordinary). Whether the
/// kernel lets it: it takes CAP_SYS_NICE, and a control group of version 1's processor controller with time for such threads.
///
/// Source: sched(7), sched_setscheduler(2): thread 0 is the calling one.
#[must_use]
pub fn run_before_others() -> bool {
    if !has_time() {
        return false;
    }
    let priority: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // Asked of the kernel: musl's function of this name refuses.
    // SAFETY: the kernel reads one sched_param, which is one int that lives for the call; 0 is this thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

/// Whether threads of this process, and of its children, may be real-time threads for as long as they
/// need (RLIMIT_RTTIME).
///
/// Source: setrlimit(2).
pub(super) fn has_time() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit, which is ours and lives for the call.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &raw mut limit) };
    got == 0 && limit.rlim_cur == libc::RLIM_INFINITY
}
