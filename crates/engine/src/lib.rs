//! The reclaim engine: decides which pages stay in memory and which are evicted, as the Linux
//! kernel does.
//!
//! It uses no file descriptor, process, clock, thread or source of randomness: time and seeds are
//! arguments, so any run can be repeated. It has no dependency and no unsafe code.
//!
//! Modules from the bottom: [`word`] (the 32-bit state of a page), [`folio`] (the table of these
//! words, and the accessed bits), page lists with lazy removal, on which [`lru_gen`] and
//! [`active_inactive`] are built, [`lruvec`] (table, lists and counters of one memcg), [`vmscan`]
//! (reclaim from a lruvec in three phases). Callers use [`machine`]: a tree of tenants, which may
//! have a single process.
//!
//! | here | in the kernel | deliberate differences |
//! |---|---|---|
//! | `lru_gen/` | mm/vmscan.c, MGLRU half | one zone; the kernel has a lruvec for each memory node, here a lruvec has lists for each node, and generations and the refault controller are common to all nodes; the embedder walks its page tables, with Bloom filters and look-around |
//! | `active_inactive/` | mm/vmscan.c, mm/swap.c | the reference check counts at most one mapping as accessed, because a page has one accessed bit |
//! | `workingset/` | mm/workingset.c | a shadow is in its page's word, and so needs no owner; the number of shadows is bounded only if configured |
//! | `memcg/`, `machine/` | mm/memcontrol.c, mm/page_counter.c | one memcg LRU for all memory nodes; the id of a tenant is reused only after the tenant has no page left |
//! | `rstat/` | kernel/cgroup/rstat.c | a bit for each line of statistics that changed; a flush adds the changes of all workers to a group at once |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod age_bins;
pub mod log_histogram;
mod ring;
pub mod units;
pub mod word;

pub mod folio;
pub mod memcg;
pub mod policy;
pub mod workingset;

mod list;
pub mod rstat;
pub mod vmstat;

pub mod active_inactive;
pub mod lru_gen;

pub mod lruvec;
pub mod workingset_report;

pub mod memory_stat;
pub mod vmscan;

pub mod machine;

pub use folio::{FolioId, FolioTable, FolioType};
pub use lruvec::{FaultKind, Lruvec, Policy};
pub use machine::{Aging, Machine, MachineConfig};
pub use memcg::MemcgId;
pub use units::{Bytes, Limit, Millis, Pages, Swappiness};
pub use vmscan::{Memory, PageOut, ScanReason};
pub use word::NodeId;

/// Makes the example of the README a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
