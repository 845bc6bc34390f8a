//! The simulator: the engine, unchanged, on simulated memory.
#![forbid(unsafe_code)]

pub mod experiments;
pub mod in_words;
pub mod mrc;
pub mod outcome;
pub mod rng;
pub mod stats;
pub mod trace;
