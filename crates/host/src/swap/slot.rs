//! Where in swap a page is, from `/proc/PID/pagemap` (the kernel's admin guide, mm/pagemap).
//!
//! Invariant: only a pagemap entry that is certainly a swap slot is returned as one. Pages in
//! memory and pages under migration have no slot. To a reader without CAP_SYS_ADMIN the kernel
//! shows slot 0 for every page; slot 0 is the area's header, so it is never returned.

use std::io;
use std::os::fd::BorrowedFd;

use engine::units::PAGE_SIZE;
use pagetables::access;

/// Number of swap types that can be areas, from 0 on. Larger numbers mean migration, poisoned
/// pages, markers or device memory.
const TYPES: u8 = 23;

/// A swap slot: one page of a swap area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot {
    /// The kernel's number of the area.
    pub area: u8,
    /// The number of the page in the area.
    pub offset: u64,
}

impl Slot {
    /// Parses a 64-bit pagemap entry; `None` if it is not a swap slot.
    #[must_use]
    pub fn parse(bits: u64) -> Option<Slot> {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        let is_out = bits & PRESENT == 0 && bits & SWAPPED != 0;
        let area = u8::try_from(bits & 31).ok()?;
        let offset = bits >> 5 & ((1 << 50) - 1);
        (is_out && area < TYPES && offset > 0).then_some(Slot { area, offset })
    }
}

/// Returns the slot of the page at each address, in the order of the addresses; `None` for a page
/// without one. Makes one read for each run of neighbouring pages.
///
/// # Errors
/// The process is gone, its memory is locked, or the file is no pagemap.
pub fn slots(
    (pid, pagemap): (u32, BorrowedFd<'_>),
    addresses: &[u64],
) -> io::Result<Vec<Option<Slot>>> {
    let mut found = Vec::with_capacity(addresses.len());
    for run in addresses.chunk_by(|one, next| one.checked_add(PAGE_SIZE) == Some(*next)) {
        let mut bytes = vec![0; run.len() * 8];
        let got = access::read_at((pid, pagemap), run[0] / PAGE_SIZE * 8, &mut bytes)?;
        if got < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let words = bytes.as_chunks::<8>().0;
        found.extend(
            words
                .iter()
                .map(|word| Slot::parse(u64::from_le_bytes(*word))),
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_swap_slots_are_parsed() {
        let out = 1_u64 << 62;
        let slot = |area, offset| Some(Slot { area, offset });
        assert_eq!(Slot::parse(out | 7 << 5 | 2), slot(2, 7));
        assert_eq!(Slot::parse(out | 1 << 55 | 7 << 5), slot(0, 7));
        for bits in [
            0,
            7 << 5,
            out | 1 << 63 | 7 << 5,
            out | 2,
            out | 7 << 5 | 30,
        ] {
            assert_eq!(Slot::parse(bits), None, "{bits:x}");
        }
    }

    #[test]
    fn our_own_pages_are_in_memory() {
        let pages = vec![1_u8; 4 * 4096];
        let first = (pages.as_ptr().addr() as u64).next_multiple_of(4096);
        let us = std::process::id();
        let pagemap = access::open(us, "pagemap").expect("our own");
        let pagemap = (us, std::os::fd::AsFd::as_fd(&pagemap));
        // Addresses in any order, of neighbouring pages or not.
        let requested = [first + 8192, first, first + 4096];
        let found = slots(pagemap, &requested).expect("our own");
        assert_eq!(found, [None; 3]);
        assert_eq!(std::hint::black_box(&pages)[4096], 1);
    }
}
