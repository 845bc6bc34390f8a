//! Recordings of real programs: which pages each look found accessed, come and gone, in a file that is read again by the
//! simulator. The format is in docs/formats.md.
//!
//! A recording is a row of frames, each with its length and a checksum ([`frame`]). What changed since the look before is
//! told as runs of pages, by address space and by what changed (`runs`): present, out, accessed. So both sides keep
//! the same bits ([`Pages`]), and a look of a program that does what it did before takes some bytes.
//!
//! Invariant: whatever bytes come in, reading ends with looks, the end, or [`Damaged`]; memory is bounded by
//! [`CHUNKS_MAX`] (1 GiB at most). A file that was cut off anywhere gives the looks that were whole.
#![forbid(unsafe_code)]

mod decode;
mod encode;
pub mod frame;
mod header;
mod item;
mod order;
mod pages;
mod runs;
mod unit;
mod varint;

pub use decode::{CHUNKS_MAX, Damaged, Decoded, Decoder, Look};
pub use encode::Encoder;
pub use header::Header;
pub use pages::{CHUNK_PAGES, Pages, Planes};
pub use unit::Unit;

/// What a recording begins with.
pub const MAGIC: [u8; 16] = *b"pagetide-events2";

/// A page's number has so many bits (5 levels of tables: 57 bits of addresses less 12).
pub const PAGE_BITS: u32 = 45;

/// Address spaces that a recording can tell apart: with [`PAGE_BITS`] they are 64 bits.
pub const SPACES_MAX: u32 = 1 << 19;

#[cfg(test)]
mod tests;
