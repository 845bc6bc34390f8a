//! What hardware does after a fault: the access is made again, and sets the accessed bit.
//!
//! This is the simulator's to do and not the engine's: `Machine::fault_in` also tells the engine of pages that
//! a host has found in real page tables, and those have their bits already.
//!
//! Invariant: an access through a mapping leaves the page's bit set, whether it faulted or not; an access
//! through a descriptor leaves it alone.

use engine::workingset::Refault;
use engine::{FaultKind, FolioId, FolioType, Machine, MemcgId};

/// A page of a simulated program is not there: it comes in, and what faulted is done. Returns what its
/// shadow told, as [`Machine::fault_in`]; the accessed bit is the one in the engine's table.
///
/// # Panics
/// When `id` is beyond what [`engine::Lruvec::ensure`] made valid.
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
