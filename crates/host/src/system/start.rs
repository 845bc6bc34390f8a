//! How this process was started, and becoming another program the same way; the calls are `pagetables`',
//! where all unsafe code of the product is.

use std::ffi::CString;
use std::io;
use std::time::Duration;

pub use pagetables::{
    Found, block_no_signal, child_signal_waits, close_on_exec_from, found, is_ignored, peer,
    take_child_signal,
};

use rustix::process::Signal;

/// What `ps` shows of each process of ours. Run by `/proc/self/exe`, one without this is called `exe`.
pub const NAME: &str = "pagetide";

/// Becomes the program `argv[0]` as [`pagetables::become_program`] does, without access workers: the program would have
/// them as children.
#[must_use]
pub fn become_program(argv: &[CString]) -> io::Error {
    pagetables::access::end_workers();
    pagetables::become_program(argv)
}

/// Calls this process by [`NAME`]; without effect where the kernel refuses.
pub fn take_name() {
    let _ = rustix::thread::set_name(c"pagetide");
}

/// A signal that tells us to end and comes so soon after the first is the same one. (The story: timeout(1) sends it to its command, and then to
/// its process group: now and then both were heard, and `attach` ended without its report.)
pub const TWICE: Duration = Duration::from_millis(100);

/// The numbers of the signals that tell us to end in order: SIGTERM, which whoever sends it means for us, and SIGINT and SIGHUP, which all
/// who share a terminal get, unless whoever started us had them ignored (nohup, a shell that runs a script's job in the background). To be
/// asked before any of them has a handler. (The story: `nohup pagetide report --watch` ended when its user logged out.)
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP].into_iter();
    let heard = signals.filter(|signal| *signal == Signal::TERM || !is_ignored(signal.as_raw()));
    heard.map(Signal::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run with and without these signals ignored: the kernel's own list says which.
    #[test]
    fn what_was_ignored_stays_so_but_sigterm() {
        let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = u64::from_str_radix(mask.expect("a line").trim(), 16).expect("a mask");
        let heard = ending_signals();
        for (signal, always) in [(2, false), (15, true), (1, false)] {
            let is_heard = always || mask & 1 << (signal - 1) == 0;
            assert_eq!(heard.contains(&signal), is_heard, "{signal}: {mask:x}");
        }
    }
}
