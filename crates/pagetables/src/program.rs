//! The BPF program that reads kernel memory: it copies up to [`COPIES`] pieces, of at most a page
//! each, into a map that this process has mapped. All decisions are made in user space.
//!
//! Invariant: the program reads with `probe_read_kernel` alone, which fails on memory that cannot
//! be read. It attaches to nothing and ends after at most [`COPIES`] iterations.
//!
//! The map consists of 64-bit words:
//!
//! - word 0: output, the address of this process's task_struct;
//! - word 1: input, the number of requests;
//! - 2 words for each request: the address, then the length in bytes, which the program replaces by
//!   0 or an error;
//! - one page for each request: the copied memory.

use std::os::fd::{AsRawFd, OwnedFd};

/// Maximum number of requests in one run: 512 last-level tables, and the upper tables on the way to
/// them.
pub(crate) const COPIES: usize = 676;
/// Index of the first request, in words.
pub(crate) const REQUESTS: usize = 2;
/// Index of the first copied page, in words: the first page boundary behind the requests.
pub(crate) const PAGES: usize = (REQUESTS + 2 * COPIES).next_multiple_of(512);
/// Size of the whole map, in words.
pub(crate) const WORDS: usize = PAGES + COPIES * 512;

/// The request with index N has its page N << `PAGE_SHIFT` bytes after the first page.
const PAGE_SHIFT: i32 = 12;
/// A request takes 16 bytes, so its index is shifted left by this number of bits.
const REQUEST_SHIFT: i32 = 4;

/// The operation codes in use (RFC 9669): class, width or operation, and source.
mod code {
    pub(super) const LOAD_IMMEDIATE: u8 = 0x18;
    pub(super) const LOAD: u8 = 0x79;
    pub(super) const STORE: u8 = 0x7b;
    pub(super) const MOVE: u8 = 0xbf;
    pub(super) const SET: u8 = 0xb7;
    pub(super) const ADD: u8 = 0x0f;
    pub(super) const ADD_K: u8 = 0x07;
    pub(super) const SHIFT_LEFT_K: u8 = 0x67;
    pub(super) const JUMP: u8 = 0x05;
    pub(super) const IF_GREATER_K: u8 = 0x25;
    pub(super) const IF_NOT_BELOW_K: u8 = 0x35;
    pub(super) const IF_NOT_BELOW: u8 = 0x3d;
    pub(super) const CALL: u8 = 0x85;
    pub(super) const EXIT: u8 = 0x95;
}
/// Source of `code::LOAD_IMMEDIATE`: the immediate is a map's descriptor; the address of its value
/// is loaded.
const MAP_VALUE: u8 = 2;
/// Numbers of the kernel's helper functions that the program calls.
const GET_CURRENT_TASK: i32 = 35;
const PROBE_READ_KERNEL: i32 = 113;

/// One instruction: code, destination, source, offset, immediate.
#[expect(
    clippy::cast_sign_loss,
    reason = "fields of an instruction are bit patterns"
)]
const fn op(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    code as u64
        | (to as u64) << 8
        | (from as u64) << 12
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Returns the instructions of the program that serves the requests in the map `map`.
///
/// Registers: r6 the map, r7 the number of the request, r8 the request's two words.
pub(crate) fn code(map: &OwnedFd) -> Vec<u64> {
    let bytes = |words: usize| i32::try_from(words * 8).unwrap_or(i32::MAX);
    let copies = i32::try_from(COPIES).unwrap_or(i32::MAX);
    let from = i16::try_from(REQUESTS * 8).unwrap_or(i16::MAX);
    let length = from + 8;
    vec![
        op(code::LOAD_IMMEDIATE, 6, MAP_VALUE, 0, map.as_raw_fd()),
        0, // the second half of the immediate: the offset in the value
        op(code::CALL, 0, 0, 0, GET_CURRENT_TASK),
        op(code::STORE, 6, 0, 0, 0),
        op(code::SET, 7, 0, 0, 0),
        // next:
        op(code::IF_NOT_BELOW_K, 7, 0, 16, copies), // to out
        op(code::LOAD, 1, 6, 8, 0),
        op(code::IF_NOT_BELOW, 7, 1, 14, 0), // to out
        op(code::MOVE, 8, 7, 0, 0),
        op(code::SHIFT_LEFT_K, 8, 0, 0, REQUEST_SHIFT),
        op(code::ADD, 8, 6, 0, 0),
        op(code::LOAD, 2, 8, length, 0),
        op(code::IF_GREATER_K, 2, 0, 7, 1 << PAGE_SHIFT), // to skip
        op(code::LOAD, 3, 8, from, 0),
        op(code::MOVE, 1, 7, 0, 0),
        op(code::SHIFT_LEFT_K, 1, 0, 0, PAGE_SHIFT),
        op(code::ADD, 1, 6, 0, 0),
        op(code::ADD_K, 1, 0, 0, bytes(PAGES)),
        op(code::CALL, 0, 0, 0, PROBE_READ_KERNEL),
        op(code::STORE, 8, 0, length, 0),
        // skip:
        op(code::ADD_K, 7, 0, 0, 1),
        op(code::JUMP, 0, 0, -17, 0), // to next
        // out:
        op(code::SET, 0, 0, 0, 0),
        op(code::EXIT, 0, 0, 0, 0),
    ]
}
