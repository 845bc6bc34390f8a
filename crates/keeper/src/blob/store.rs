//! Reading stored bytes, and giving slots back.
//!
//! Invariant: a slot's reference count is the number of words, over all views, that name it.

use super::sys;
use super::table::PAGE;
use super::view::{Keeper, READAHEAD_MAX};
use core::sync::atomic::{AtomicU16, Ordering};
use keeper::layout::{REFS_BYTES, fd};
use keeper::word::{Bytes, Kind, PAGE_SIZE, Place, SLOT_GRANULE, Slot, Tier};

fn count(k: &Keeper, slot: Slot) -> Option<&'static AtomicU16> {
    let base = match slot.tier {
        Tier::Pool => k.refs,
        Tier::File => k.file_refs,
    };
    let byte = (slot.offset / SLOT_GRANULE) as usize * 2;
    if byte >= REFS_BYTES || slot.kind == Kind::Snapshot {
        return None;
    }
    // SAFETY: inside the mapping of REFS_BYTES, aligned to two, atomics only.
    Some(unsafe { &*((base as usize + byte) as *const AtomicU16) })
}

/// One more word names the place.
pub(super) fn retain(k: &Keeper, place: Place) {
    if let Some(Bytes::Slot(slot)) = place.bytes()
        && let Some(n) = count(k, slot)
    {
        let _ = n.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_add(1));
    }
}

/// A word names the place no more.
pub(super) fn release(k: &Keeper, place: Place) {
    if let Some(Bytes::Slot(slot)) = place.bytes()
        && let Some(n) = count(k, slot)
    {
        // A count at its maximum has lost track and stays until the manager counts anew.
        let _ = n.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| {
            if n == u16::MAX {
                None
            } else {
                n.checked_sub(1)
            }
        });
    }
}

/// Reads the page at `place` into buffer `n`; false if the bytes cannot be had (a bug or a broken
/// store).
pub(super) fn load(k: &mut Keeper, place: Place, n: usize) -> bool {
    let page = &mut k.pages.0[n % READAHEAD_MAX];
    let slot = match place.bytes() {
        Some(Bytes::Slot(slot)) => slot,
        Some(Bytes::Same(word)) => {
            keeper::decode::fill(word, page);
            return true;
        }
        None => return false,
    };
    let file = match (slot.kind, slot.tier) {
        (Kind::Snapshot, _) => super::children::SNAPSHOT_FD,
        (_, Tier::Pool) => fd::POOL,
        (_, Tier::File) => fd::FILE,
    };
    let len = usize::from(slot.len).min(PAGE_SIZE);
    if sys::pread(file, &mut k.encoded[..len], slot.offset) != len as i64 {
        return false;
    }
    let Some(scratch) = k.scratch.as_mut() else {
        return false;
    };
    keeper::decode::decode(slot.kind, &k.encoded[..len], page, scratch).is_ok()
}

/// Appends the page at `addr` (limbo or transit) to the snapshot file.
pub(super) fn snapshot(k: &mut Keeper, addr: u64) -> Option<Place> {
    let offset = k.snapshot_len;
    if sys::pwrite_from(super::children::SNAPSHOT_FD, addr, PAGE, offset) != PAGE as i64 {
        return None;
    }
    k.snapshot_len += PAGE;
    Place::slot(Slot {
        tier: Tier::Pool,
        kind: Kind::Snapshot,
        offset,
        len: PAGE_SIZE as u16,
    })
}
