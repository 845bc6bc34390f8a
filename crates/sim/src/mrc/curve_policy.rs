//! The policies for which miss-ratio curves are computed: their names, and how to make a memory
//! under each of them.
//!
//! Invariant: a name means the same policy on the command line and in results.

use super::{ArcCache, Cache, Clock, EngineRun, Lirs, Lru, S3Fifo, Sieve, WTinyLfu};
use engine::active_inactive::Stage;
use engine::{Pages, Policy};

/// A policy for which curves are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurvePolicy {
    /// Least recently used, computed exactly.
    Lru,
    /// CLOCK with one reference bit.
    Clock,
    /// Belady's OPT: no policy has fewer misses.
    Opt,
    /// The engine's multi-gen LRU.
    LruGen,
    /// The engine's active and inactive lists.
    ActiveInactive,
    /// ARC: recency and frequency, in shares that adapt.
    Arc,
    /// S3-FIFO: a small queue before a CLOCK.
    S3Fifo,
    /// SIEVE: a queue with a hand that moves over it.
    Sieve,
    /// LIRS: inter-reference recency.
    Lirs,
    /// W-TinyLFU: counted frequency decides which pages enter the memory.
    WTinyLfu,
}

impl CurvePolicy {
    /// All policies.
    pub const ALL: [Self; 10] = [
        Self::Lru,
        Self::Clock,
        Self::Opt,
        Self::LruGen,
        Self::ActiveInactive,
        Self::Arc,
        Self::S3Fifo,
        Self::Sieve,
        Self::Lirs,
        Self::WTinyLfu,
    ];

    /// Returns the policy's name, as on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Clock => "clock",
            Self::Opt => "opt",
            Self::LruGen => "lru-gen",
            Self::ActiveInactive => "active-inactive",
            Self::Arc => "arc",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
            Self::Lirs => "lirs",
            Self::WTinyLfu => "w-tiny-lfu",
        }
    }

    /// Returns whether the policy is simulated separately at each size. LRU and OPT are computed in
    /// other ways.
    pub(super) const fn is_simulated(self) -> bool {
        !matches!(self, Self::Lru | Self::Opt)
    }

    /// Makes a memory of `size` pages under this policy. The engine's policies evict `batch` pages
    /// at a time. `None` for OPT, which needs the future references.
    #[must_use]
    pub fn memory(self, size: u64, batch: usize) -> Option<Box<dyn Cache>> {
        let engine = |policy| Some(Box::new(EngineRun::with_batch(policy, size, batch)) as _);
        match self {
            Self::Opt => None,
            Self::Lru => Some(Box::new(Lru::new(size))),
            Self::Clock => Some(Box::new(Clock::new(size))),
            Self::LruGen => engine(Policy::default()),
            Self::ActiveInactive => engine(Policy::ActiveInactive(Stage::Detection, Pages(size))),
            Self::Arc => Some(Box::new(ArcCache::new(size))),
            Self::S3Fifo => Some(Box::new(S3Fifo::new(size))),
            Self::Sieve => Some(Box::new(Sieve::new(size))),
            Self::Lirs => Some(Box::new(Lirs::new(size))),
            Self::WTinyLfu => Some(Box::new(WTinyLfu::new(size))),
        }
    }
}
