//! Policies of the literature to hold the multi-gen LRU against: ARC, LIRS, S3-FIFO, SIEVE,
//! W-TinyLFU.
//!
//! Each is written from its paper; where libCacheSim decides otherwise, or the paper leaves something
//! open, it decides as libCacheSim does, so that misses can be compared to the last one. What that
//! is stands at the head of each file; docs/traces.md says which version and which sizes.
//!
//! Invariant: a policy is deterministic, and depends on the references and on the numbers of pages
//! ([`super::Cache::introduce`]) alone.

mod arc;
mod lirs;
mod rings;
mod s3_fifo;
mod sieve;
mod sketch;
mod w_tiny_lfu;
mod xxh64;

pub use arc::ArcCache;
pub use lirs::Lirs;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use w_tiny_lfu::WTinyLfu;

/// So much of a memory of `size` pages, rounded down as C rounds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a size below 2^53 pages"
)]
fn part(size: u64, share: f64) -> u64 {
    (size as f64 * share) as u64
}

/// Makes room in a table by page for `id`, in steps that double.
#[inline]
fn reach<T: Clone>(table: &mut Vec<T>, id: u32, empty: T) {
    let at = id as usize;
    if at >= table.len() {
        table.resize((at + 1).next_power_of_two(), empty);
    }
}

#[cfg(test)]
mod tests;
