//! The simulator: runs the engine, unchanged, on simulated memory.
//!
//! It also has models of two parts of the kernel. Only simulations need them, because real memory
//! has the kernel itself:
//!
//! | here | the kernel's | deliberate differences |
//! |---|---|---|
//! | `mmu_gather/` | mm/mmu_gather.c, mm/swap.c | frames and folios are a model, their counters are atomic, locks are counted |
//! | `vma.rs` | mm/mmap.c, mm/madvise.c, mm/fadvise.c | what reclaim needs of them: whether accesses predict later ones |
#![forbid(unsafe_code)]

pub mod hardware;
pub mod in_words;
pub mod memory_bound;
pub mod mmu_gather;
mod nearest;
pub mod policy_runner;
pub mod stats;
pub mod trace;
pub mod vma;

pub mod mapped;
pub mod mrc;
pub mod outcome;
pub mod parallel;
pub mod stopwatch;

pub mod scenario;
pub mod show;
pub mod tenant;

pub mod experiments;
pub mod fidelity;

pub mod job;

pub use touches::rng;
