//! Which of the kernel's numbers of swap areas a zram has: pagemap tells numbers, `/proc/swaps` tells names, and nothing tells both.
//!
//! Invariant: a number is shown, never guessed. Where one area is all there is, every place is in it; where there are several, pages
//! of our own memory with a token each go to swap, until one is read at its place of the device.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pagetables::Advice::PageOut;
use pagetables::access;
use rustix::fs::{Advice, fadvise};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::places::Places;
use super::slot::{Slot, slots};

const PAGE: usize = 4096;
/// A page that was just written may be on no list yet.
const TRIES: usize = 5;
/// A processor gives places of the area that it took some from last first, whatever others' priority is: until Linux 6.15 up to 64 that it
/// keeps, since then what is free of a cluster of 512. So many pages go there from one that we run on, and from one that we are
/// moved to. (The story: on 6.17 nothing could be written back where a processor had a cluster of another area.)
const PAGES: usize = 2 * 512 + 1;

/// The number of the area that is `device`; none if our pages went elsewhere.
pub(super) fn number_of(places: &Places, device: &Path) -> io::Result<Option<u8>> {
    let mut token = Vec::new();
    while token.len() < PAGE {
        token.extend(std::fs::read(places.proc.join("sys/kernel/random/uuid"))?);
    }
    token.truncate(PAGE);
    let device = File::open(device).map_err(|error| at("opening it", &error))?;
    let mut own = vec![0; (PAGES + 1) * PAGE];
    let start = to_page(&own);
    // Whoever serves has locked all of its memory, so that it is no victim of its own: in the guest nothing left (EINVAL).
    pagetables::unlock(&mut own[start..start + PAGES * PAGE])
        .map_err(|error| at("unlocking pages of our own", &error))?;
    let mut found = None;
    for number in 0..PAGES {
        // Each page has words of its own: what is found is of this one.
        token[..8].copy_from_slice(&(number as u64).to_ne_bytes());
        let begin = start + number * PAGE;
        own[begin..begin + PAGE].copy_from_slice(&token);
        let Some(slot) = put_out(own.as_ptr().addr() as u64 + begin as u64)? else {
            break;
        };
        if is_at(&device, slot.offset, &token)? {
            found = Some(slot.area);
            break;
        }
    }
    // Touched now and not before: their places were their own until here.
    std::hint::black_box(&own);
    Ok(found)
}

/// Whether these bytes are at that place of the device.
fn is_at(device: &File, place: u64, token: &[u8]) -> io::Result<bool> {
    // The page cache may have an older page of that place. Where it keeps that, the token is not found, and nothing is guessed.
    let _ = fadvise(device, 0, None, Advice::DontNeed);
    let mut page = vec![0; PAGE];
    match device.read_exact_at(&mut page, place * PAGE as u64) {
        Ok(()) => Ok(page == token),
        // It is smaller than the area that our page went to.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(at("reading it", &error)),
    }
}

/// Puts our page at this address out; where it went, if it did. As long as nobody touches it, it stays there.
fn put_out(address: u64) -> io::Result<Option<Slot>> {
    let us = std::process::id();
    let pagemap = access::open(us, "pagemap")?;
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty())?;
    let range = address..address + PAGE as u64;
    for _ in 0..TRIES {
        access::advise((us, &pidfd), std::slice::from_ref(&range), PageOut, false)
            .map_err(|error| at("paging out a page of our own", &error))?;
        let place = slots((us, pagemap.as_fd()), &[address])
            .map_err(|error| at("reading pagemap", &error))?;
        if let [Some(slot)] = place[..] {
            return Ok(Some(slot));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(None)
}

/// What failed, where.
fn at(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// How far into a buffer its first whole page begins.
fn to_page(buffer: &[u8]) -> usize {
    let address = buffer.as_ptr().addr();
    address.next_multiple_of(PAGE) - address
}
