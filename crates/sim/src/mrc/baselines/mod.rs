//! Baseline policies of the literature, to compare the multi-gen LRU with: ARC, LIRS, S3-FIFO,
//! SIEVE, W-TinyLFU.
//!
//! Each is written from its paper. Where libCacheSim differs from the paper, or the paper leaves a
//! choice, the code does the same as libCacheSim, so that misses can be compared exactly. These
//! choices are listed at the beginning of each file. docs/traces.md says with which version and at
//! which sizes they were compared.
//!
//! Invariant: a policy is deterministic. Its results depend only on the references and the page
//! numbers ([`super::Cache::introduce`]).

mod rings;
mod xxh64;

mod arc;
mod lirs;
mod s3_fifo;
mod sieve;
mod sketch;

mod w_tiny_lfu;

pub use arc::ArcCache;
pub use lirs::Lirs;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use w_tiny_lfu::WTinyLfu;

/// Returns a share of `size` pages, rounded down like a conversion in C.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a size below 2^53 pages"
)]
fn part(size: u64, share: f64) -> u64 {
    (size as f64 * share) as u64
}

/// Makes a table with an entry for each page long enough for `id`; the length doubles each time.
#[inline]
fn reach<T: Clone>(table: &mut Vec<T>, id: u32, empty: T) {
    let at = id as usize;
    if at >= table.len() {
        table.resize((at + 1).next_power_of_two(), empty);
    }
}

#[cfg(test)]
mod tests;
