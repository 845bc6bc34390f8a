//! Models of the kernel's that only simulations call: real memory has the kernel itself for them.
//! As in the engine nothing here knows a clock, a thread or a source of randomness.
//!
//! | here | the kernel's | deliberate differences |
//! |---|---|---|
//! | `mmu_gather/` | mm/mmu_gather.c, mm/swap.c | frames and folios are a model, their counters are atomic, locks are counted |
//! | `vma.rs` | mm/mmap.c, mm/madvise.c, mm/fadvise.c | what reclaim needs of them: whether accesses mean anything |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod mmu_gather;
pub mod vma;
