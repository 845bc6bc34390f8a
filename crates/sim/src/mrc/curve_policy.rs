//! The policies that have a curve: their names, and memories of them.
//!
//! Invariant: a name says one policy, on the command line and in results.

use super::{ArcCache, Cache, Clock, EngineRun, Lirs, Lru, S3Fifo, Sieve, WTinyLfu};
use engine::active_inactive::Stage;
use engine::{Pages, Policy};

/// A policy that has a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurvePolicy {
    /// Least recently used, exact.
    Lru,
    /// One reference bit.
    Clock,
    /// The floor.
    Opt,
    /// The engine's multi-gen LRU.
    LruGen,
    /// The engine's active and inactive lists.
    ActiveInactive,
    /// Recency and frequency in shares that adapt.
    Arc,
    /// A small queue before a CLOCK.
    S3Fifo,
    /// A hand that passes over a queue.
    Sieve,
    /// Inter-reference recency.
    Lirs,
    /// Counted frequency decides who comes in.
    WTinyLfu,
}

impl CurvePolicy {
    /// All of them.
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

    /// Its name on a command line and in results.
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

    /// True of those that are simulated at each size; LRU and OPT have ways of their own.
    pub(super) const fn is_simulated(self) -> bool {
        !matches!(self, Self::Lru | Self::Opt)
    }

    /// A memory of `size` pages; the engine's take `batch` pages at a time. `None` for OPT, which has to
    /// know the future.
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
