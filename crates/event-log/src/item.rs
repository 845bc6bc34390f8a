//! What the content of a frame is made of; each item begins with its number.
//!
//! Invariant: a number keeps its meaning; what ends a look, and the end, is the last item of its frame.

/// page bytes, interval, seed, begin, length of the command, command.
pub(crate) const HEADER: u8 = 1;
/// number: what follows is of this address space, which was read.
pub(crate) const SPACE: u8 = 2;
/// kind, how many runs; of each the pages between it and the one before, and its pages less one.
pub(crate) const RUNS: u8 = 3;
/// number: this address space is gone.
pub(crate) const GONE: u8 = 4;
/// milliseconds since the last look, pages of which nothing is known.
pub(crate) const LOOK: u8 = 5;
/// how many looks there were.
pub(crate) const END: u8 = 6;
