//! The caller's resource limits (setrlimit(2)), and how a command behaves under them.
//!
//! Invariant: a limit makes a call fail and the command end with words; none ends it by a signal. Two
//! are not ours to hold: processor time, whose signals (SIGXCPU, SIGKILL) are what its user asked for,
//! and memory or stack too small for the kernel to begin a program at all.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use host::system::start::is_ignored;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::{SIGABRT, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

/// Less stack than this may not be enough for every command, bytes.
const ENOUGH: u64 = 1 << 20;
/// Stack of the thread that works where there is less, bytes.
const OWN_STACK: usize = 8 << 20;

/// Runs a command; its exit code.
pub(crate) fn under_limits(command: fn() -> u8) -> u8 {
    // Without these it ends by a signal, as any other program.
    let _ = hold_signals();
    match getrlimit(Resource::Stack).current {
        Some(bytes) if bytes < ENOUGH => on_own_stack(command, bytes),
        _ => command(),
    }
}

/// A handler of ours is gone after an exec, so a program under `run` has both signals as they were.
fn hold_signals() -> io::Result<()> {
    if !is_ignored(SIGXFSZ) {
        // A write beyond the limit of a file's size fails then (EFBIG).
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    }
    if !is_ignored(SIGABRT) {
        // Rust says so on standard error and aborts where no memory is left.
        flag::register_conditional_shutdown(SIGABRT, 1, Arc::new(AtomicBool::new(true)))?;
    }
    Ok(())
}

/// A thread's stack is no part of the limit.
fn on_own_stack(command: fn() -> u8, bytes: u64) -> u8 {
    let thread = std::thread::Builder::new().stack_size(OWN_STACK);
    match thread.spawn(command) {
        Ok(thread) => thread.join().unwrap_or(1),
        Err(error) => {
            let what = format!("cannot begin with {bytes} bytes of stack: {error}");
            Failure::new(what, "raise the limit of the stack (ulimit -s)").tell()
        }
    }
}
