//! Recordings of real programs: which pages each scan found accessed, new or gone, in a file that
//! the simulator reads. The format is in docs/formats.md.
//!
//! A recording is a sequence of frames, each with its length and a checksum ([`frame`]). A scan
//! records only what changed since the previous scan: runs of pages, by address space and by kind
//! of bit (present, paged out, accessed). The decoder applies the changes, so it has the same bits
//! as the encoder ([`Pages`]). If a program accesses the same pages in every scan, a scan takes
//! only a few bytes.
//!
//! Invariant: for any input bytes, reading ends: with the end mark, with [`Damaged`], or with the
//! last complete scan of a file that was cut off. The decoder's memory is bounded by [`CHUNKS_MAX`]
//! (1 GiB at most).
#![forbid(unsafe_code)]

pub mod frame;
mod item;
mod pages;
mod unit;
mod varint;

mod header;
mod order;
mod runs;

mod decode;
mod encode;

pub use decode::{CHUNKS_MAX, Damaged, Decoded, Decoder, Scan};
pub use encode::Encoder;
pub use header::Header;
pub use pages::{CHUNK_PAGES, Pages, Planes};
pub use unit::Unit;

/// First bytes of a recording.
pub const MAGIC: [u8; 16] = *b"pagetide-events2";

/// Number of bits in a page number: addresses have 57 bits (5 levels of page tables), of which 12
/// are the offset in a page.
pub const PAGE_BITS: u32 = 45;

/// Maximum number of address spaces in a recording: 19 bits. With [`PAGE_BITS`] a page of any of
/// them has a number of 64 bits.
pub const SPACES_MAX: u32 = 1 << 19;

#[cfg(test)]
mod tests;
