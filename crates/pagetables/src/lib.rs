//! Reads the present, accessed, dirty and swapped bits of another process from its page tables, and
//! clears the accessed bits.
//!
//! Invariant: this crate reads and clears bits; the caller decides what they mean for a program's
//! memory. This crate knows no tenant, no age and no report. Its unsafe code is in the module
//! `calls`, and in tests.
//!
//! Modules, from the lowest to the highest:
//!
//! - `calls`: system calls that no safe library offers;
//! - `access`: every call that may have to wait for another process's memory lock;
//! - `entry`: one page-table entry;
//! - `btf`: offsets of members in the kernel's structures;
//! - `program` and `copier`: the BPF program, and batches of copies of kernel memory that it makes;
//! - `reader`: the constants of the running kernel, and how a process's tables are found;
//! - `walk`: one walk of a process's page tables;
//! - `folios`: accessed bits that a foreign clearer (DAMON, idle page tracking) cleared;
//! - `mappings` and `lock`: a process's mappings, and whether its memory lock is held;
//! - `noreuse`: how the kernel marks an open file that is used only once;
//! - `clear`: clearing the accessed bits;
//! - `source`: the trait over all sources of accessed bits, `page_tables` its best implementation;
//! - `idle` and `sizes`: sources for hosts on which page tables cannot be read.

mod btf;
mod calls;
mod entry;
mod program;
mod unavailable;

pub mod access;
mod copier;
mod zero;

mod clear;
mod reader;

mod folios;
mod lock;
mod mappings;
mod walk;

mod noreuse;
mod source;

mod idle;
mod page_tables;
mod sizes;

#[cfg(test)]
mod testing;

pub use calls::{ADVICE_RANGES_MAX, Advice, advise, cpu_time};
pub use clear::{Cleared, Pace, Part};
pub use entry::{Entry, Kind, PAGE_SIZE};
pub use idle::IdleBitmap;
pub use mappings::{Device, Mapping, MappingKind};
pub use page_tables::PageTables;
pub use reader::{Mm, Reader};
pub use sizes::{Referenced, Sizes};
pub use source::{Grain, Source, SourceKind, WalkResult};
pub use unavailable::Unavailable;
pub use walk::{Piece, Sink, Walked, Whole};

/// The example of the README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
