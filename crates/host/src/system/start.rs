//! How this process was started, and how to replace it by another program that is started the same
//! way. The system calls are in `sys`.

use std::ffi::CString;
use std::io;
use std::time::Duration;

pub use sys::{
    StartState, block_no_signal, child_signal_waits, close_on_exec_from, found, is_ignored, peer,
    take_child_signal,
};

use rustix::process::Signal;

/// The name that `ps` shows for each of our processes. Without it, a process that was started as
/// `/proc/self/exe` would be called `exe`.
pub const NAME: &str = "pagetide";

/// Replaces this process by the program `argv[0]`, like [`sys::become_program`]; returns only if
/// that fails. Ends access workers first, which would otherwise become children of that program.
#[must_use]
pub fn become_program(argv: &[CString]) -> io::Error {
    pagetables::access::end_workers();
    sys::become_program(argv)
}

/// Gives this process the name [`NAME`]; without effect if the kernel refuses.
pub fn take_name() {
    let _ = rustix::thread::set_name(c"pagetide");
}

/// Two ending signals that arrive within this time count as one: timeout(1) sends a signal to its
/// command, and then to the command's process group.
pub const TWICE: Duration = Duration::from_millis(100);

/// Returns the numbers of the signals that request a normal end. SIGTERM always does. SIGINT and
/// SIGHUP go to all processes of a terminal, so they count only if our parent did not start us with
/// them ignored (as nohup does, and a shell that runs a script's job in the background). Call this
/// before any of them has a handler.
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP].into_iter();
    let signals = signals.filter(|signal| *signal == Signal::TERM || !is_ignored(signal.as_raw()));
    signals.map(Signal::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests may be started with these signals ignored or not; `SigIgn` in `/proc` shows which
    /// are ignored.
    #[test]
    fn ignored_signals_stay_ignored_except_sigterm() {
        let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = u64::from_str_radix(mask.expect("a line").trim(), 16).expect("a mask");
        let signals = ending_signals();
        for (signal, always) in [(2, false), (15, true), (1, false)] {
            let is_heard = always || mask & 1 << (signal - 1) == 0;
            assert_eq!(signals.contains(&signal), is_heard, "{signal}: {mask:x}");
        }
    }
}
