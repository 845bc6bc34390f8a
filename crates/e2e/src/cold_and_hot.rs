//! A program that writes a small part of its memory all the time and never uses the rest again.

use std::time::Duration;

use crate::guard::{Run, Running};
use crate::{proc, wait};

/// Bytes that the program fills once and never touches again.
pub const COLD: u64 = 64 << 20;
/// Bytes that the program writes to fifty times a second.
pub const HOT: u64 = 8 << 20;

/// The program, in Python.
const PROGRAM: &str = "\
import time
cold = bytearray(b'abcdefgh' * (8 << 20))
hot = bytearray(8 << 20)
print('ready', flush=True)
while True:
    for page in range(0, len(hot), 4096):
        hot[page] = 1
    time.sleep(0.02)
";

/// Starts the program as arguments of the command `wrap`, and waits until it has filled its memory.
///
/// # Panics
/// If it has not filled it within `limit`.
#[must_use]
pub fn start(wrap: &[&str], limit: Duration) -> Running {
    let words = wrap.iter().copied().chain(["python3", "-c", PROGRAM]);
    let running = Run::new(words).start();
    wait::until("the program", limit, || running.stdout().contains("ready"));
    running
}

/// Bytes of a process that are in swap, by the kernel's VmSwap; 0 if it has ended.
#[must_use]
pub fn swapped(pid: u32) -> u64 {
    proc::number(pid, "VmSwap").unwrap_or(0)
}
