//! How a command behaves under the resource limits that its caller has set (setrlimit(2)).
//!
//! Invariant: at a limit a call fails, and the command ends with a message, not by a signal. There
//! are two exceptions: processor time, whose signals (SIGXCPU, SIGKILL) the user wants, and memory
//! or stack too small for the kernel to start any program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use host::system::start::is_ignored;
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::{SIGABRT, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

/// Bytes of stack that suffice for every command.
const STACK_MIN: u64 = 1 << 20;
/// Bytes of stack of the thread that runs the command if the stack limit is below [`STACK_MIN`].
const OWN_STACK: usize = 8 << 20;

/// Runs a command under these limits; returns its exit code.
pub(crate) fn under_limits(command: fn() -> u8) -> u8 {
    // If the handlers cannot be set, a signal ends the command, as it ends any other program.
    let _ = hold_signals();
    match getrlimit(Resource::Stack).current {
        Some(bytes) if bytes < STACK_MIN => on_own_stack(command, bytes),
        _ => command(),
    }
}

/// Catches SIGXFSZ and SIGABRT. An exec resets the handlers, so for a program under `run` both
/// signals are unchanged.
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

/// Runs the command in a new thread, to whose stack the stack limit does not apply.
fn on_own_stack(command: fn() -> u8, bytes: u64) -> u8 {
    let thread = std::thread::Builder::new().stack_size(OWN_STACK);
    match thread.spawn(command) {
        Ok(thread) => thread.join().unwrap_or(1),
        Err(error) => {
            let what = format!("cannot begin with {bytes} bytes of stack: {error}");
            Failure::new(what, "raise the limit of the stack (ulimit -s)").print()
        }
    }
}
