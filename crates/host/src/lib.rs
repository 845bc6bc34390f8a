//! Real memory: what the kernel says of processes, how old their pages are, and what takes cold pages back.
//!
//! Invariant: which page leaves is decided by the engine, never here. Reading ([`system`], [`books`], [`ages`],
//! [`watch`], [`report`]) changes nothing of a process but its accessed bits; managing ([`swap`], [`wall`], [`manage`])
//! changes where its pages are and, for what enters a wall, its control group. Modules stand on floors:
//! [`system`] reads what the kernel says; [`books`] keeps ages and knows no process; [`ages`] brings both
//! together; [`watch`] keeps a pace and makes a [`report`]. Beside `ages`, [`swap`] makes the room that memory
//! can leave to, and [`wall`] a control group; on all of them, [`manage`] has cold pages leave. [`confine`] takes rights from a
//! thread of ours.
#![forbid(unsafe_code)]

pub mod ages;
pub mod books;
pub mod confine;
pub mod doctor;
pub mod manage;
pub mod price;
pub mod report;
pub mod swap;
pub mod system;
pub mod wall;
pub mod watch;
pub mod workload;
