//! Workingset detection: what is stored of evicted pages, and estimates from it.
//! spec: workingset.md.
//!
//! This module has the eviction clock of the classic LRU and its form in shadows; the contents of
//! the multi-gen LRU's shadows are in `lru_gen/refault.rs`. The module `curve` estimates from page
//! ages how many refaults memories of other sizes would have.

mod by_size;
mod shadow;
mod shadow_nodes;

mod curve;

pub use curve::{Cohort, CurveScan, Missed, Period, RefaultCurve};
pub use shadow::{EvictionClock, Refault};
pub use shadow_nodes::{CHUNK_SLOTS, ShadowNodes, excess_nodes};
