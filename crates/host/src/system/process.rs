//! One process, as `/proc/PID` shows it: its state ([`Stat`]), its size ([`Status`], [`Rollup`]),
//! its command line, and which devices also access its memory ([`SecondaryMmu`]).
//!
//! Invariant: a pid alone does not identify a process for long, as the kernel reuses pids. An
//! [`Identity`] does, as it also has the start time.

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
