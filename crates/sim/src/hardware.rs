//! Simulates what hardware does after a page fault: it repeats the access, which sets the accessed
//! bit.
//!
//! This is the simulator's task, not the engine's. A host calls `Machine::fault_in` to report pages
//! that it found in real page tables, and those already have their accessed bits.
//!
//! Invariant: an access through a mapping sets the page's bit, whether it faulted or not. An access
//! through a file descriptor does not change the bit.

use engine::workingset::Refault;
use engine::{FaultKind, FolioId, FolioType, Machine, MemcgId};

/// Faults in a page of a simulated program and repeats the access, which sets the bit in the
/// engine's table. Returns what the page's shadow entry says, as [`Machine::fault_in`] does.
///
/// # Panics
/// If `id` is beyond the pages that [`engine::Lruvec::ensure`] made valid.
pub fn fault(
    machine: &mut Machine,
    (memcg, id): (MemcgId, FolioId),
    ty: FolioType,
    kind: FaultKind,
    has_recency: bool,
) -> Option<Refault> {
    let refault = machine.fault_in(memcg, id, ty, kind, has_recency);
    if kind != FaultKind::Descriptor {
        machine.lruvec_mut(memcg).touch(id);
    }
    refault
}
