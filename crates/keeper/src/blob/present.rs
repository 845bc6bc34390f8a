//! Which pages of a range are really in the page table (`PAGEMAP_SCAN` on ourselves).
//!
//! The result of a move is not enough. Linux 6.18 forgets to clear an internal EAGAIN (a page whose
//! accessed bit changed while it was looked at): the page is moved on the second try, but not
//! counted, and the call ends with EEXIST at a page that it has moved itself. With
//! `UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES` the same slip makes the kernel spin on the next hole until it
//! is killed, so that mode is never used here. What a short move did is looked up at the target.

use super::sys;
use super::table::PAGE;
use keeper::layout::fd;
use uffd::abi::{PAGEMAP_SCAN, PageRegion, PmScanArg, page_is};

/// The first run of present (or swapped) pages in `start..end`.
pub(super) fn first(start: u64, end: u64) -> Option<(u64, u64)> {
    let mut region = PageRegion::default();
    let any = page_is::PRESENT | page_is::SWAPPED;
    let mut arg = PmScanArg {
        size: size_of::<PmScanArg>() as u64,
        start,
        end,
        vec: core::ptr::from_mut(&mut region) as u64,
        vec_len: 1,
        category_anyof_mask: any,
        ..PmScanArg::default()
    };
    let found = start < end && sys::ioctl(fd::PAGEMAP, PAGEMAP_SCAN, &mut arg) > 0;
    (found && region.start < region.end).then_some((region.start, region.end.min(end)))
}

/// Calls `f(start, end)` for each run of present pages.
pub(super) fn runs(start: u64, end: u64, mut f: impl FnMut(u64, u64)) {
    let mut at = start;
    while let Some((s, e)) = first(at, end) {
        f(s, e);
        at = e;
    }
}

/// Bytes from `start` on that are present without a gap.
pub(super) fn prefix(start: u64, end: u64) -> u64 {
    match first(start, end) {
        Some((s, e)) if s == start => e - s,
        _ => 0,
    }
}

/// Whether the page at `addr` is present.
pub(super) fn any(addr: u64) -> bool {
    first(addr, addr + PAGE).is_some()
}
