//! Notes the state in which this process was started, and replaces the process by another program
//! in that state.
//!
//! Invariant: when [`become_program`] is called, what an exec passes on is as it was when the
//! process started. Before `main`, Rust's runtime opens closed standard descriptors and ignores
//! SIGPIPE; this module notes the state before that. [`become_program`] restores SIGPIPE. The
//! caller sets close-on-exec on the standard descriptors that were closed ([`found`]).

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU8, Ordering};

/// The part of the process's state that Rust's runtime changes, as it was before `main`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartState {
    /// Whether the standard descriptors 0, 1 and 2 were closed, in this order.
    pub closed: [bool; 3],
    /// Whether SIGPIPE was ignored.
    pub ignores_pipe: bool,
}

/// The noted state. Bits 0 to 2: the standard descriptor with the bit's number was closed. Bit 3:
/// SIGPIPE was ignored.
static FOUND: AtomicU8 = AtomicU8::new(0);

/// Bit of [`FOUND`]: SIGPIPE was ignored.
const IGNORES_PIPE: u8 = 1 << 3;

/// Notes the state of the process in [`FOUND`]. The C library's start code calls this before
/// `main`, so this function uses nothing of Rust's library but atomics.
extern "C" fn note() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: no memory is handed over; reading a descriptor's flags changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            found |= 1 << fd;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= IGNORES_PIPE;
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// Returns whether this process ignores a signal. A process inherits that from its parent process
/// (nohup(1) uses this).
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: a sigaction is plain numbers, for which zeros are valid.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one sigaction to a place that is ours, and changes nothing.
    let requested = unsafe { libc::sigaction(signal, null(), &raw mut now) } == 0;
    requested && now.sa_sigaction == libc::SIG_IGN
}

// SAFETY: the section holds addresses of functions without arguments that are read by the C
// library's start code; `note` is one, and needs nothing that is not there before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Returns the state that was noted before `main`.
#[must_use]
pub fn found() -> StartState {
    let bits = FOUND.load(Ordering::Relaxed);
    StartState {
        closed: [0, 1, 2].map(|fd| bits & 1 << fd != 0),
        ignores_pipe: bits & IGNORES_PIPE != 0,
    }
}

/// Replaces this process by the program `argv[0]`, which execvp(3) searches for. The new program
/// has the current environment, and SIGPIPE as this process had it at its start. Returns only on
/// failure, with the error.
#[must_use]
pub fn become_program(argv: &[CString]) -> io::Error {
    let Some(program) = argv.first() else {
        return io::Error::from_raw_os_error(libc::ENOENT);
    };
    let mut words: Vec<*const c_char> = argv.iter().map(|word| word.as_ptr()).collect();
    words.push(null());
    let pipe = |handler| {
        // SAFETY: both handlers are the kernel's own; no function of ours is called.
        unsafe { libc::signal(libc::SIGPIPE, handler) };
    };
    if !found().ignores_pipe {
        pipe(libc::SIG_DFL);
    }
    // SAFETY: the words end with NULL, and they and what they point to live for the call.
    unsafe { libc::execvp(program.as_ptr(), words.as_ptr()) };
    let error = io::Error::last_os_error();
    pipe(libc::SIG_IGN);
    error
}

/// Sets close-on-exec on all descriptors from number `first` on; closes none now.
///
/// # Errors
/// The kernel's. Before Linux 5.11, which lacks the call for a range, also errors of reading
/// `/proc/self/fd`.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with this flag no descriptor is closed; no memory is handed over.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    match done {
        0 => Ok(()),
        _ => mark_each(first),
    }
}

/// Sets close-on-exec on each descriptor from `first` on, for kernels that cannot do that for a
/// range.
fn mark_each(first: u32) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(fd) = number.filter(|fd| u32::try_from(*fd).is_ok_and(|fd| fd >= first)) {
            // SAFETY: the descriptor stays open; one that is gone by now is an error of no
            // interest.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// A set of signals that has `signal`, or is empty.
fn set_of(signal: Option<c_int>) -> libc::sigset_t {
    // SAFETY: a set of signals is plain numbers, for which zeros are valid.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours, and the signal's number is the C library's own.
    unsafe {
        libc::sigemptyset(&raw mut set);
        if let Some(signal) = signal {
            libc::sigaddset(&raw mut set, signal);
        }
    }
    set
}

/// Unblocks all signals in this thread, also those that were blocked when the process started.
pub fn block_no_signal() {
    let none = set_of(None);
    // SAFETY: the C library reads one set that lives for the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut()) };
}

/// Returns whether a blocked SIGCHLD is pending; an exec would pass it on to the new program.
#[must_use]
pub fn child_signal_waits() -> bool {
    let mut set = set_of(None);
    // SAFETY: the C library writes one set to a place that is ours, and reads it.
    unsafe {
        libc::sigpending(&raw mut set) == 0 && libc::sigismember(&raw const set, libc::SIGCHLD) == 1
    }
}

/// Removes a pending SIGCHLD, so that an exec does not pass it on to the new program.
pub fn take_child_signal() {
    let set = set_of(Some(libc::SIGCHLD));
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel reads one set and one time that live for the call, and writes nothing.
    unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const now) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_before_main_is_noted() {
        // Test runners do not ignore SIGPIPE and have standard descriptors; other states are tested
        // in e2e. This test checks that the state was noted at all, and is plausible.
        assert_eq!(found().closed, [false; 3]);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let argv = [c"/no/such/program".to_owned()];
        let error = become_program(&argv);
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(is_ignored(libc::SIGPIPE), "SIGPIPE is ignored again");
        assert_eq!(become_program(&[]).raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn no_child_signal_waits_where_none_is_blocked() {
        block_no_signal();
        assert!(!child_signal_waits());
        take_child_signal();
    }
}
