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

/// The name in `ps` of each process of ours. Without it, a process started by `/proc/self/exe`
/// would be called `exe`.
pub const NAME: &str = "pagetide";

/// Replaces this process by the program `argv[0]`, as [`sys::become_program`] does; returns only if
/// that fails. Ends access workers first: they would become the program's children.
#[must_use]
pub fn become_program(argv: &[CString]) -> io::Error {
    pagetables::access::end_workers();
    sys::become_program(argv)
}

/// Gives this process the name [`NAME`]; without effect if the kernel refuses.
pub fn take_name() {
    let _ = rustix::thread::set_name(c"pagetide");
}

/// Two signals to end that arrive within this time count as one: timeout(1) sends a signal to its
/// command, and then to the command's process group.
pub const TWICE: Duration = Duration::from_millis(100);

/// Returns the numbers of the signals that request a normal end. SIGTERM is always one. SIGINT and
/// SIGHUP go to all processes on a terminal, so they count unless our parent had them ignored
/// (nohup, a shell that runs a script's job in the background). Call this before any of them has a
/// handler.
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP].into_iter();
    let signals = signals.filter(|signal| *signal == Signal::TERM || !is_ignored(signal.as_raw()));
    signals.map(Signal::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests may be started with these signals ignored or not: `SigIgn` in `/proc` says which
    /// are.
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
