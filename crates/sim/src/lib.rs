//! The simulator: the engine, unchanged, on simulated memory.
#![forbid(unsafe_code)]

pub mod experiments;
pub mod fidelity;
pub mod hardware;
pub mod in_words;
pub mod job;
pub mod mapped;
pub mod memory_bound;
pub mod minder;
pub mod mrc;
mod nearest;
pub mod outcome;
pub mod parallel;
pub mod scenario;
pub mod show;
pub mod stats;
pub mod stopwatch;
pub mod tenant;
pub mod trace;

pub use touches::rng;
