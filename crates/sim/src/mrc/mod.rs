//! Miss-ratio curves: what share of the references of a trace would miss, by memory size.
//!
//! Exact LRU for all sizes in one pass ([`Stack`]), the same on a sample ([`Shards`]), single sizes
//! by simulation ([`Lru`], [`Clock`], [`opt_misses`]) and the engine itself on simulated memory
//! ([`EngineRun`]), at many limits at once on a sample ([`Miniature`]).
//!
//! Invariant: pages are dense ids ([`crate::trace::Dense`]), sizes are in pages, and the first
//! reference to a page always misses. Results do not depend on time of day or on hash seeds.

mod clock;
mod curve;
mod engine_run;
mod job;
mod lru;
mod miniature;
mod opt;
mod ranks;
mod shards;
mod stack;

pub use clock::Clock;
pub use curve::Curve;
pub use engine_run::{EngineRun, RECLAIM_BATCH};
pub use job::{CurvePolicy, Curves, Job, Progress, Size};
pub use lru::Lru;
pub use miniature::Miniature;
pub use opt::{NextUses, opt_misses};
pub use shards::{Sampler, Shards};
pub use stack::Stack;

/// A policy that holds a fixed number of pages.
pub trait Cache {
    /// References a page; true when it was there. It is afterwards.
    fn access(&mut self, id: u32) -> bool;

    /// References pages in turn; how many were not there.
    fn misses(&mut self, ids: &[u32]) -> u64 {
        ids.iter().map(|&id| u64::from(!self.access(id))).sum()
    }
}

/// A share of counts.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub fn ratio(part: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        part as f64 / of as f64
    }
}

#[cfg(test)]
mod tests;
