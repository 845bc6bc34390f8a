//! Workingset detection: what is kept of a page that has left. spec: workingset.md.
//!
//! What the multi-gen LRU writes into its shadows is in `lru_gen/refault.rs`; the clock and the
//! packing of the classic LRU are here. So is what ages tell of memories of other sizes (`curve`).

mod by_size;
mod curve;
mod shadow;
mod shadow_nodes;

pub use curve::{Cohort, CurveLook, Missed, Period, RefaultCurve};
pub use shadow::{EvictionClock, Refault};
pub use shadow_nodes::{CHUNK_SLOTS, ShadowNodes, excess_nodes};
