//! What hardware does after a fault: it repeats the access, which sets the accessed bit.
//!
//! The simulator does this, not the engine: a host also calls `Machine::fault_in`, to report pages
//! found in real page tables, and those have their accessed bits already.
//!
//! Invariant: an access through a mapping sets the page's bit, whether it faulted or not; an access
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
