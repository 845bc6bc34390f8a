//! Memory of real processes: what the kernel reports about it, the ages of its pages, and the
//! reclaim of cold pages.
//!
//! Invariant: the engine (crate `engine`) decides which page is reclaimed; this crate never does.
//! The modules that only read ([`system`], [`age_table`], [`ages`], [`watch`], [`report`]) change
//! nothing of a process except its accessed bits. The modules that manage ([`swap`],
//! [`hard_limit`], [`manage`]) also page memory out, and with a hard limit they move the process to
//! another control group.
//!
//! In this list each module uses only modules before it: [`system`] reads the kernel's files;
//! [`age_table`] keeps the age of each frame, without knowledge of processes; [`ages`] scans
//! processes into the age table; [`watch`] scans at intervals and makes a [`report`]; [`swap`] sets
//! up swap; [`hard_limit`] makes hard-limit cgroups; [`manage`] reclaims cold pages. [`confine`]
//! takes rights from a thread of this process.
#![forbid(unsafe_code)]

pub mod age_table;
pub mod confine;
mod fair;
pub mod report;
pub mod system;

pub mod ages;
pub mod hard_limit;
pub mod price;
pub mod swap;
pub mod workload;

pub mod watch;

pub mod doctor;
pub mod manage;
