//! Real memory, the reading half: processes, control groups, mappings, pressure, swap, and the books
//! of how old each of their pages is.
//!
//! Invariant: nothing here decides what leaves memory, and nothing changes a process but its accessed
//! bits. Modules stand on floors: [`system`] reads what the kernel says; [`books`] keeps ages and
//! knows no process; [`ages`] brings both together; [`watch`] keeps a pace and makes a [`report`].
#![forbid(unsafe_code)]

pub mod ages;
pub mod books;
pub mod doctor;
pub mod manage;
pub mod report;
pub mod system;
pub mod wall;
pub mod watch;
