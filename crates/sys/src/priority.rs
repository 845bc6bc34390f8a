//! Real-time priority for a thread that must run within a millisecond.
//!
//! Invariant: no thread gets real-time priority if RLIMIT_RTTIME limits the time of such threads.
//! The kernel ends a process by a signal when one of its threads exceeds that limit.

/// Gives the calling thread the lowest real-time priority (SCHED_FIFO), so that it runs before all
/// ordinary threads. Its children begin as ordinary threads. Returns whether the thread now has
/// that priority. The kernel requires CAP_SYS_NICE. Where the cpu controller of cgroup version 1 is
/// in use, the thread's cgroup must also have real-time bandwidth.
///
/// Source: sched(7), sched_setscheduler(2): thread 0 is the calling one.
#[must_use]
pub fn set_real_time_priority() -> bool {
    if !has_time() {
        return false;
    }
    let priority: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // A raw system call: musl's wrapper of this name always fails.
    // SAFETY: the kernel reads one sched_param, which is one int that lives for the call; 0 is this
    // thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

/// Whether this process and its children may use real-time priority without a time limit:
/// RLIMIT_RTTIME is unlimited.
///
/// Source: setrlimit(2).
#[must_use]
pub fn has_time() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit, which is ours and lives for the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &raw mut limit) };
    result == 0 && limit.rlim_cur == libc::RLIM_INFINITY
}

/// The ordinary scheduling policy, with the flag that children do not inherit the policy.
const ORDINARY_ALONE: libc::c_int = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;

/// Runs `work` at the lowest real-time priority, so that no other program takes the processor away
/// while a process waits for a lock that `work` holds. Without the right to do so (CAP_SYS_NICE),
/// or if RLIMIT_RTTIME is limited, `work` runs at the priority that the thread has.
pub fn with_real_time_priority<T>(work: impl FnOnce() -> T) -> T {
    // A raw system call, since musl's wrapper of this name always fails: POSIX sets the policy of a
    // process, the kernel that of a thread.
    let set = |policy: libc::c_int, priority: libc::c_int| {
        // SAFETY: the kernel reads one sched_param, which is one int that lives for the call; 0 is
        // this thread.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
    };
    // SAFETY: no memory is handed over; 0 is this thread.
    let before = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    // The priority is raised only if the policy before was the ordinary one. Only that policy can
    // be restored for certain: its single parameter is 0.
    let ordinary = [libc::SCHED_OTHER, ORDINARY_ALONE];
    let before = ordinary
        .into_iter()
        .find(|one| libc::c_long::from(*one) == before);
    let raised =
        before.filter(|_| has_time() && set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1));
    let result = work();
    // A thread that was raised by RLIMIT_RTPRIO, without CAP_SYS_NICE, may not remove the
    // reset-on-fork flag (sched(7)). In an ordinary thread the flag only means that children begin
    // with a nice value of at least 0.
    if let Some(before) = raised
        && !set(before, 0)
    {
        set(ORDINARY_ALONE, 0);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_put_back() {
        let policy = || {
            // SAFETY: no memory is handed over.
            unsafe { libc::sched_getscheduler(0) }
        };
        let before = policy();
        with_real_time_priority(policy);
        assert_eq!(policy(), before);
    }

    /// Regression: a thread without CAP_SYS_NICE that RLIMIT_RTPRIO allowed real-time priority kept
    /// that priority for ever.
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
            // The policy that `work` runs with in a thread that still has the capability.
            let raised = with_real_time_priority(policy);
            if !is_limited || !drop_nice() {
                return;
            }
            for turn in 0..2 {
                assert_eq!(with_real_time_priority(policy), raised, "turn {turn}");
                let left = policy() & !libc::SCHED_RESET_ON_FORK;
                assert_eq!(left, libc::SCHED_OTHER, "turn {turn}");
            }
        };
        std::thread::spawn(of_a_thread)
            .join()
            .expect("it does not panic");
    }

    /// Removes CAP_SYS_NICE from this thread; returns whether that succeeded.
    fn drop_nice() -> bool {
        const VERSION: u32 = 0x2008_0522;
        const SYS_NICE: u32 = 23;
        let header = [VERSION, 0];
        // Effective, permitted, inheritable: a word each for the capabilities 0 to 31, then a word
        // each for the rest.
        let mut sets = [0_u32; 6];
        // SAFETY: the kernel reads the header and writes six words, all of which live for the call.
        let result = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) };
        sets[0] &= !(1 << SYS_NICE);
        // SAFETY: the kernel reads both, which live for the call, and changes this thread alone.
        let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
        result == 0 && set == 0
    }
}
