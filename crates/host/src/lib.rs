//! Real memory, the reading half: processes, control groups, mappings, pressure, swap, and the books
//! of how old each of their pages is; and the [`wall`] around what is managed.
//!
//! Invariant: nothing here decides what leaves memory, and nothing changes a process but its accessed
//! bits and, for those that enter a wall, the control group that they are in. Modules stand on floors:
//! [`system`] reads what the kernel says; [`books`] keeps ages and knows no process; [`ages`] brings both
//! together; [`watch`] keeps a pace and makes a [`report`]. Beside `ages`, [`swap`] makes the room that memory
//! can leave to, and [`wall`] a control group; on all of them, [`manage`] has cold pages leave.
#![forbid(unsafe_code)]

pub mod ages;
pub mod books;
pub mod doctor;
pub mod manage;
pub mod report;
pub mod swap;
pub mod system;
pub mod wall;
pub mod watch;
