//! Test workloads: which pages they touch, and in which order. A real kernel in a guest (a virtual
//! machine) and the simulator run the same sequence of touches, so that their counters can be
//! compared (docs/fidelity.md).
//!
//! The binary of this crate is the program that runs in the guest. It is static and small, so this
//! crate depends on no other.
//!
//! Modules, from the lowest to the highest:
//!
//! - [`rng`] and [`zipf`]: random numbers, for the simulator too;
//! - [`case`](mod@case): a tree of control groups, and which tenant touches what;
//! - [`cases`]: all workloads;
//! - [`stream`]: the touches of one tenant;
//! - [`turns`]: which tenant runs next;
//! - [`figures`]: the counts, as a line of text.
#![forbid(unsafe_code)]

pub mod case;
pub mod figures;
pub mod rng;

pub mod cases;
pub mod zipf;

pub mod stream;

pub mod turns;
