//! Workingset detection: what is stored of an evicted page.
//! spec: workingset.md.
//!
//! What the multi-gen LRU writes into its shadows is in `lru_gen/refault.rs`; the eviction clock of
//! the classic LRU and its form in shadows are here. The module `curve` estimates, from the ages of
//! pages, the refaults in memories of other sizes.

mod by_size;
mod shadow;
mod shadow_nodes;

mod curve;

pub use curve::{Cohort, CurveScan, Missed, Period, RefaultCurve};
pub use shadow::{EvictionClock, Refault};
pub use shadow_nodes::{CHUNK_SLOTS, ShadowNodes, excess_nodes};
