//! The simulator: the engine, unchanged, on simulated memory.
#![forbid(unsafe_code)]

pub mod experiments;
pub mod mrc;
pub mod outcome;
pub mod trace;
