//! One process, as `/proc/PID` tells: what it is ([`Stat`]), how large ([`Status`],
//! [`Rollup`]), how it was called, and who else may access its memory ([`SecondaryMmu`]).
//!
//! Invariant: a pid alone names nobody for long. An [`Identity`] does: the kernel gives a number out
//! again, and never with the same start time.

mod command;
mod secondary;
mod smaps;
mod stat;
mod statm;
mod status;

pub use secondary::SecondaryMmu;
pub use smaps::{Rollup, Smap, parse_rollup, parse_smaps};
pub use stat::{Identity, Stat, parse_stat};
pub use status::{Status, parse_status};

#[cfg(test)]
mod tests;
