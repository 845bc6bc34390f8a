//! The kinds of items in a frame's content. An item is the number of its kind, then the numbers
//! that each constant here lists ([`crate::varint`]).
//!
//! Invariant: the meaning of a kind never changes. An item that ends a scan or the recording is the
//! last of its frame.

/// Page size, scan interval, seed, start time, length of the command line; then the command line
/// ([`crate::Header`]).
pub(crate) const HEADER: u8 = 1;
/// Number of an address space that the scan has read. The runs that follow are of its pages.
pub(crate) const SPACE: u8 = 2;
/// Kind of bit (0 present, 1 paged out, 2 accessed), number of runs. Then two numbers for each run
/// of pages whose bit has changed: pages between the previous run and this one, and the run's
/// length in pages minus 1.
pub(crate) const RUNS: u8 = 3;
/// Number of an address space that has ended.
pub(crate) const GONE: u8 = 4;
/// End of a scan: milliseconds since the previous scan, number of pages of which it is unknown
/// whether they were accessed.
pub(crate) const SCAN: u8 = 5;
/// End of the recording: number of its scans.
pub(crate) const END: u8 = 6;
