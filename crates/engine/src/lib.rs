//! The reclaim engine: everything that decides which page stays and which is evicted, and nothing
//! else.
//!
//! It knows no file descriptor, no process, no clock, no thread and no source of randomness: time
//! and seeds are arguments, so any run can be repeated. It has no dependency and no unsafe code.
//!
//! From the bottom: [`word`] (one 32-bit state a page), [`folio`] (their table, with the accessed
//! bits), lists as rings of packed entries with lazy removal, [`lru_gen`] and [`active_inactive`]
//! on top of them, [`lruvec`] (table, lists and counters of one memcg, with either policy),
//! [`vmscan`] (reclaim in three phases). The facade is [`machine`]: a tree of tenants, of
//! which one process is the smallest.
//!
//! | here | the kernel's | deliberate differences |
//! |---|---|---|
//! | `lru_gen/` | mm/vmscan.c, MGLRU half | one zone; lists by memory node, of which the kernel has a lruvec each, so that generations and the refault controller are common to all nodes; walks, Bloom filters and look-around are at the embedder's page tables |
//! | `active_inactive/` | mm/vmscan.c, mm/swap.c | at most one page-table reference a check: the word has one bit |
//! | `workingset/` | mm/workingset.c | a shadow lies in its page's slot: it needs no owner; node reclaim forgets it there, if configured |
//! | `memcg/`, `machine/` | mm/memcontrol.c, mm/page_counter.c | one memcg LRU for all memory nodes; ids belong to a tenant for good |
//! | `rstat/` | kernel/cgroup/rstat.c | a bit for each line of statistics that changed; a flush adds all workers' parts of a group at once |
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

/// The example of the README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
