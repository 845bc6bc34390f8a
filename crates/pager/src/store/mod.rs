//! Where evicted bytes live: a memory pool, and a file under it. `docs/store.md` has the layout.
//!
//! The manager allocates, compresses and writes; keepers read and drop references behind its
//! back. The store never fails a program: what cannot be stored stays resident ([`StoreFull`]).

mod area;
mod backing;
mod bits;
mod encode;
mod refs;
mod slab;
mod space;

#[cfg(test)]
mod tests;
mod tiers;

use std::io;

use keeper::Place;
use keeper::word::PAGE_SIZE;

pub use backing::{Backing, DiskBacking, MemBacking};
pub use refs::{RefCounts, dec_and_test, inc};
pub use tiers::Store;

/// The bytes of one page.
pub type Page = [u8; PAGE_SIZE];

/// Which compressor is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compress {
    /// lz4 for every page.
    #[default]
    Lz4,
    /// lz4, but zstd for pages that are cold.
    Tiered,
    /// zstd for every page.
    Zstd,
    /// Only same-filled pages are squeezed.
    None,
}

/// How likely the page is to come back soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Temperature {
    /// It may: decode speed counts.
    Warm,
    /// It has not been touched for many intervals: space counts.
    Cold,
}

/// Limits and choices of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Compressor.
    pub compress: Compress,
    /// Most bytes of the pool.
    pub pool_max: u64,
    /// Most bytes of the file tier.
    pub file_max: u64,
}

/// A tier's two halves.
pub struct Tier {
    /// Its bytes.
    pub backing: Box<dyn Backing>,
    /// Its reference counts.
    pub refs: Box<dyn RefCounts>,
}

/// The page was not stored and must stay resident. Not an error of the program: try again later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreFull {
    /// Pool and file tier are at their limits.
    #[error("the store is at its limit; raise --store's size or give it a directory")]
    Limit,
    /// The device refused the bytes (full disk, quota, I/O error).
    #[error("the store's device refused the page: {0}")]
    Device(io::ErrorKind),
}

/// The page cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The place names no slot of this store, or its bytes do not decode.
    #[error("the stored page at {0:?} is corrupt")]
    Corrupt(Place),
    /// The device failed.
    #[error("cannot read a stored page: {0}")]
    Device(#[from] io::Error),
}

/// What [`Store::rebuild`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// References counted.
    pub references: u64,
    /// Slots that they name.
    pub slots: u64,
    /// Places that no slot of this store can have (a hostile table); ignored.
    pub refused: u64,
}

/// Pages and bytes put since the store was opened, and what is in use now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Pages put as one repeated word.
    pub same: u64,
    /// Pages put as lz4 blocks.
    pub lz4: u64,
    /// Pages put as zstd frames.
    pub zstd: u64,
    /// Pages put as they are.
    pub raw: u64,
    /// Encoded bytes put.
    pub encoded_bytes: u64,
    /// Pages refused ([`StoreFull`]).
    pub refused: u64,
    /// Bytes of live slots, granule-rounded, as of the last sweep.
    pub live_bytes: u64,
}
