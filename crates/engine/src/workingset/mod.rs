//! Workingset detection: what is kept of a page that has left. spec: workingset.md.
//!
//! What the multi-gen LRU writes into its shadows is in `lru_gen/refault.rs`; the clock and the
//! packing of the classic LRU are here.

mod shadow;
mod shadow_nodes;

pub use shadow::{EvictionClock, Refault};
pub use shadow_nodes::{CHUNK_SLOTS, ShadowNodes, excess_nodes};
