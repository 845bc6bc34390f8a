//! Miss-ratio curves: the share of a trace's references that would miss, by memory size.
//!
//! There are several ways to compute them: exact LRU for all sizes in one pass ([`Stack`]); the
//! same on a sample of the pages ([`Shards`]); single sizes by simulation ([`Lru`], [`Clock`], the
//! baseline policies, [`opt_misses`]), also with the engine itself on simulated memory
//! ([`EngineRun`]); and many limits at once on a sample ([`Miniature`]).
//!
//! Invariant: pages are dense ids ([`crate::trace::Dense`]), sizes are in pages, and the first
//! reference to a page always misses. Results do not depend on time of day or on hash seeds.

mod baselines;
mod clock;
mod curve;
mod curve_policy;
mod engine_run;
mod gap;
mod job;
mod lru;
mod miniature;
mod opt;
mod ranks;
mod shards;

mod stack;

pub use baselines::{ArcCache, Lirs, S3Fifo, Sieve, WTinyLfu};
pub use clock::Clock;
pub use curve::Curve;
pub use curve_policy::CurvePolicy;
pub use engine_run::{EngineRun, RECLAIM_BATCH};
pub use gap::Gap;
pub use job::{Curves, Job, Progress, Size};
pub use lru::Lru;
pub use miniature::Miniature;
pub use opt::{NextUses, opt_misses};
pub use shards::{Sampler, Shards};
pub use stack::Stack;

/// A memory of a fixed number of pages under some policy.
pub trait Cache {
    /// References a page, which is present afterwards; returns whether it was present before.
    fn access(&mut self, id: u32) -> bool;

    /// Passes the page numbers (as in the trace) of the pages that get the next ids. To be called
    /// before these are referenced.
    ///
    /// Only a policy that hashes page numbers needs them. For a page that was not introduced, such
    /// a policy uses the id as its number.
    fn introduce(&mut self, _pages: &[u64]) {}

    /// Returns the number of pages that are present.
    fn held(&self) -> u64;

    /// References pages in order; returns how many of them were absent.
    fn misses(&mut self, ids: &[u32]) -> u64 {
        ids.iter().map(|&id| u64::from(!self.access(id))).sum()
    }
}

/// Returns `part / of`; 0 if `of` is 0.
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
