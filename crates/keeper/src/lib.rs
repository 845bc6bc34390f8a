//! What keeper and pager share: the page-state word, the layout of the shared memory, the place of
//! a stored page. No system call, no memory access: those are the blob's (`main.rs`) and `uffd`'s.
//!
//! The keeper is a tiny process that lives in the address space of each target and answers its
//! page faults; the pager (the manager) decides. See `ARCHITECTURE.md`, "Two processes".
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "decode")]
pub mod decode;
pub mod layout;
pub mod occupancy;
pub mod order;
pub mod protocol;
pub mod span;
pub mod task;
pub mod word;

pub use word::{Place, State, Word};
