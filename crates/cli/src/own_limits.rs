//! The caller's resource limits (setrlimit(2)), and how a command behaves under them.
//!
//! Invariant: at a limit a call fails and the command ends with a message, not by a signal. There
//! are two exceptions: processor time, because the user wants its signals (SIGXCPU, SIGKILL), and
//! memory or stack too small for the kernel to start any program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use host::system::start::is_ignored;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::{SIGABRT, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

/// Bytes of stack that are enough for every command.
const ENOUGH: u64 = 1 << 20;
/// Bytes of stack of the thread that runs the command if the stack limit is below [`ENOUGH`].
const OWN_STACK: usize = 8 << 20;

/// Runs a command; returns its exit code.
pub(crate) fn under_limits(command: fn() -> u8) -> u8 {
    // If the handlers cannot be set, a signal ends the command like any other program.
    let _ = hold_signals();
    match getrlimit(Resource::Stack).current {
        Some(bytes) if bytes < ENOUGH => on_own_stack(command, bytes),
        _ => command(),
    }
}

/// Catches SIGXFSZ and SIGABRT. exec resets handlers, so a program under `run` starts with both
/// signals unchanged.
fn hold_signals() -> io::Result<()> {
    if !is_ignored(SIGXFSZ) {
        // With this handler, a write beyond the limit of file sizes fails with EFBIG.
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    }
    if !is_ignored(SIGABRT) {
        // If memory runs out, Rust prints that on standard error and aborts.
        flag::register_conditional_shutdown(SIGABRT, 1, Arc::new(AtomicBool::new(true)))?;
    }
    Ok(())
}

/// Runs the command on a new thread: the stack limit does not apply to its stack.
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
