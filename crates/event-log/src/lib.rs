//! The file format of recordings of real programs: for each scan, which pages were found accessed,
//! new or gone. The simulator replays such files. The format is in docs/formats.md.
//!
//! A recording is a sequence of frames ([`frame`]), each with its length and a checksum. A scan
//! records only what changed since the previous scan: runs of pages, by address space and by kind
//! of bit (present, paged out, accessed). The decoder applies the changes, so after each scan it
//! has the same bits as the encoder ([`Pages`]). If a program accesses the same pages in every
//! scan, a scan takes only a few bytes.
//!
//! Invariant: for any input bytes, reading ends: with the end mark, with [`Damaged`], or, for a
//! file that was cut off, after the last complete scan. The decoder's memory is bounded by
//! [`CHUNKS_MAX`] (1 GiB at most).
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

/// Maximum number of address spaces in a recording: 19 bits. Together with the [`PAGE_BITS`] of a
/// page number this makes 64 bits, which identify a page of any address space.
pub const SPACES_MAX: u32 = 1 << 19;

#[cfg(test)]
mod tests;
