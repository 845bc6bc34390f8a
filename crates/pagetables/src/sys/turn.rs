//! Whose turn it is: a thread that must run within a millisecond.

/// Puts the calling thread before all that have no real-time priority (SCHED_FIFO, the lowest priority of those; its children are ordinary). Whether the
/// kernel lets it: it takes CAP_SYS_NICE, and a control group of version 1's processor controller with time for such threads.
///
/// Source: sched(7), sched_setscheduler(2): thread 0 is the calling one.
#[must_use]
pub fn run_before_others() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `priority` is a whole sched_param that lives until the call has returned; nothing else is read or written.
    unsafe { libc::sched_setscheduler(0, policy, &raw const priority) == 0 }
}
