//! How this process was started, and becoming another program the same way.
//!
//! Invariant: between a process's start and [`become_program`] nothing that an exec passes on is left
//! changed: Rust's runtime opens closed standard descriptors and ignores SIGPIPE before `main`, so what it
//! found is noted before it runs, and both are put back.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU8, Ordering};

/// What Rust's runtime changes before `main`, as it was before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Standard descriptors (0, 1, 2) that were closed.
    pub closed: [bool; 3],
    /// SIGPIPE was ignored.
    pub ignores_pipe: bool,
}

/// Bits 0 to 2: that standard descriptor was closed; bit 3: SIGPIPE was ignored.
static FOUND: AtomicU8 = AtomicU8::new(0);

const IGNORES_PIPE: u8 = 1 << 3;

/// Run by the dynamic loader's start code, before `main`: nothing of Rust's library is used but atomics.
extern "C" fn note() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: no memory is handed over; asking for a descriptor's flags changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            found |= 1 << fd;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= IGNORES_PIPE;
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// Whether this process ignores a signal, as whoever started it may have wanted (nohup).
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: a sigaction is plain numbers, for which zeros are valid.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one sigaction to a place that is ours, and changes nothing.
    let asked = unsafe { libc::sigaction(signal, null(), &raw mut now) } == 0;
    asked && now.sa_sigaction == libc::SIG_IGN
}

// SAFETY: the section holds addresses of functions without arguments that are read by the C library's
// start code; `note` is one, and needs nothing that is not there before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// What was found before `main`.
#[must_use]
pub fn found() -> Found {
    let bits = FOUND.load(Ordering::Relaxed);
    Found {
        closed: [0, 1, 2].map(|fd| bits & 1 << fd != 0),
        ignores_pipe: bits & IGNORES_PIPE != 0,
    }
}

/// Becomes the program `argv[0]`, looked for as execvp(3) does, with the environment as it is and SIGPIPE
/// as it was found. Comes back only with the reason why not.
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

/// Descriptors from `first` on are closed by the next exec. None is closed now, so nobody's is taken away.
///
/// # Errors
/// The kernel's; before Linux 5.11 it cannot.
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

/// The same one by one, for kernels that know no such range.
fn mark_each(first: u32) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(fd) = number.filter(|fd| u32::try_from(*fd).is_ok_and(|fd| fd >= first)) {
            // SAFETY: the descriptor stays open; one that is gone by now is an error of no interest.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

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

/// This thread blocks no signal from now on, whatever it inherited.
pub fn block_no_signal() {
    let none = set_of(None);
    // SAFETY: the C library reads one set that lives for the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut()) };
}

/// Whether a SIGCHLD waits until it is no longer blocked: an exec would pass it on.
#[must_use]
pub fn child_signal_waits() -> bool {
    let mut set = set_of(None);
    // SAFETY: the C library writes one set to a place that is ours, and reads it.
    unsafe {
        libc::sigpending(&raw mut set) == 0 && libc::sigismember(&raw const set, libc::SIGCHLD) == 1
    }
}

/// Takes a SIGCHLD that waits.
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
    fn what_was_found_is_what_test_runners_give() {
        // Nobody runs tests with SIGPIPE ignored or without standard descriptors; both are shown end to
        // end by e2e. Here: the note was made at all, and did not say nonsense.
        assert_eq!(found().closed, [false; 3]);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let argv = [c"/no/such/program".to_owned()];
        let error = become_program(&argv);
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(is_ignored(libc::SIGPIPE), "our own way of SIGPIPE is back");
        assert_eq!(become_program(&[]).raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn no_child_signal_waits_where_none_is_blocked() {
        block_no_signal();
        assert!(!child_signal_waits());
        take_child_signal();
    }
}
