//! Which pages a workload touches, in which order: the same sequence for a real kernel in a guest and
//! for the simulator, so that their counters can be compared (docs/fidelity.md).
//!
//! The binary beside it is the guest's program. It is static and small, so nothing here depends on any
//! other crate.
//!
//! From the bottom: [`rng`] and [`zipf`] (also the simulator's own), [`case`](mod@case) (a tree of groups and who
//! touches what in it), [`cases`] (all there are), [`stream`] (one tenant's touches), [`turns`] (whose
//! turn it is), [`figures`] (what is counted, as a line of text).
#![forbid(unsafe_code)]

pub mod case;
pub mod cases;
pub mod figures;
pub mod rng;
pub mod stream;
pub mod turns;
pub mod zipf;
