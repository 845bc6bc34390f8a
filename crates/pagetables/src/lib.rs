//! Accessed, present, dirty and swapped bits of another process, read from its page tables.
//!
//! Invariant: this crate reads and clears bits; what they mean for a program's memory is the
//! caller's. It knows no tenant, age or report. All unsafe code of the product is here, in `sys`.
//!
//! From below: `sys` (system calls), `access` (what may wait for another process), `entry` (one entry), `btf` (where the kernel's members lie),
//! `program` and `copier` (copies of kernel memory), `reader` (what must be known of this
//! kernel), `walk` (a reading), `folios` (what others took away), `mappings` and `lock` (what is mapped, and whether a process's memory is locked), `clear` (setting back), `source` (the trait that all this is
//! behind), and the poorer sources `idle` and `sizes`.

pub mod access;
mod btf;
mod clear;
mod copier;
mod entry;
mod folios;
mod idle;
mod lock;
mod mappings;
mod page_tables;
mod program;
mod reader;
mod sizes;
mod source;
mod sys;
mod unavailable;
mod walk;
mod zero;

pub use clear::{Cleared, Pace, Part};
pub use entry::{Entry, Kind};
pub use idle::IdleBitmap;
pub use mappings::{Backing, Mapping};
pub use page_tables::PageTables;
pub use reader::{Mm, Reader};
pub use sizes::{Referenced, Sizes};
pub use source::{Grain, Reading, Source, SourceKind};
pub use sys::{
    ADVICE_RANGES_MAX, Advice, Found, advise, become_program, block_no_signal, child_signal_waits,
    close_on_exec_from, cpu_time, found, give_large_blocks_back, is_ignored, peer,
    run_before_others, swap_off, swap_on, take_child_signal, uninterrupted, unlock,
};
pub use unavailable::Unavailable;
pub use walk::{Piece, Sink, Walked};
