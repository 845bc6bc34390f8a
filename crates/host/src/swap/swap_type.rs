//! Finds the kernel's number of a zram's swap area: pagemap shows only numbers, `/proc/swaps` shows
//! only names, and the kernel reports nowhere which number has which name.
//!
//! Invariant: a number is proved, never guessed. If there is only one area, every swap slot is in
//! it. If there are several, we page out pages of our own memory, each filled with a token of its
//! own. If we then find the token of a page on the device, at the offset of the page's swap slot,
//! the area number in that slot is the device's.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use engine::units::{PAGE_LEN, PAGE_SIZE};
use pagetables::Advice::PageOut;
use pagetables::access;
use rustix::fs::{Advice, fadvise};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::places::Places;
use super::slot::{Slot, slots};

/// Size of a page in bytes.
/// Attempts to page out one page: just after a write it may not be on an LRU list yet.
const TRIES: usize = 5;
/// Largest number of pages to page out. A processor first uses up slots of the area that it used
/// last, even if another area has a higher priority: until Linux 6.15 up to 64 slots that it
/// caches, since then the rest of a cluster of 512. So up to 512 pages may go to another area from
/// the processor that we run on, and as many from a second one to which we are moved.
const PAGES: usize = 2 * 512 + 1;

/// Returns the kernel's number of the swap area on `device`; `None` if all our pages went to other
/// areas.
pub(super) fn number_of(places: &Places, device: &Path) -> io::Result<Option<u8>> {
    let mut token = Vec::new();
    while token.len() < PAGE_LEN {
        token.extend(std::fs::read(places.proc.join("sys/kernel/random/uuid"))?);
    }
    token.truncate(PAGE_LEN);
    let device = File::open(device).map_err(|error| error_while("opening it", &error))?;
    let mut own = vec![0; (PAGES + 1) * PAGE_LEN];
    let start = to_page(&own);
    // A manager has locked all of its memory, so that it is not paged out itself; madvise refuses
    // locked pages (EINVAL).
    sys::unlock(&mut own[start..start + PAGES * PAGE_LEN])
        .map_err(|error| error_while("unlocking pagetide's own test pages", &error))?;
    let mut found = None;
    for number in 0..PAGES {
        // Each page has its own token, so that the token proves which page was found.
        token[..8].copy_from_slice(&(number as u64).to_ne_bytes());
        let begin = start + number * PAGE_LEN;
        own[begin..begin + PAGE_LEN].copy_from_slice(&token);
        let Some(slot) = page_out(own.as_ptr().addr() as u64 + begin as u64)? else {
            break;
        };
        if is_at(&device, slot.offset, &token)? {
            found = Some(slot.area);
            break;
        }
    }
    // The last use of the pages: until here no access swapped them in, so they kept their slots.
    std::hint::black_box(&own);
    Ok(found)
}

/// Whether the page `place` of the device contains exactly `token`.
fn is_at(device: &File, place: u64, token: &[u8]) -> io::Result<bool> {
    // The page cache may have older content of that page. If it is not dropped, the token is not
    // found, and no number is returned.
    let _ = fadvise(device, 0, None, Advice::DontNeed);
    let mut page = vec![0; PAGE_LEN];
    match device.read_exact_at(&mut page, place * PAGE_SIZE) {
        Ok(()) => Ok(page == token),
        // The device is smaller than the area that our page went to.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error_while("reading it", &error)),
    }
}

/// Pages out our own page at this address. Returns its swap slot, which it keeps until it is
/// accessed; `None` if the kernel did not page it out in [`TRIES`] attempts.
fn page_out(address: u64) -> io::Result<Option<Slot>> {
    let us = std::process::id();
    let pagemap = access::open(us, "pagemap")?;
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())?;
    let range = address..address + PAGE_SIZE;
    for _ in 0..TRIES {
        access::advise((us, &pidfd), std::slice::from_ref(&range), PageOut, false)
            .map_err(|error| error_while("paging out pagetide's own test page", &error))?;
        let place = slots((us, pagemap.as_fd()), &[address])
            .map_err(|error| error_while("reading pagemap", &error))?;
        if let [Some(slot)] = place[..] {
            return Ok(Some(slot));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(None)
}

/// Returns the error with the name of the operation that failed, `what`.
fn error_while(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Returns the offset in bytes of the first whole page in a buffer.
fn to_page(buffer: &[u8]) -> usize {
    let address = buffer.as_ptr().addr();
    address.next_multiple_of(PAGE_LEN) - address
}
