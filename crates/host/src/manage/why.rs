//! Finds why a page was not paged out.
//!
//! Invariant: if the kernel does not say why, the result is `Busy`, never a guess.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};

use engine::PageOut;
use engine::units::PAGE_SIZE;
use pagetables::access;

use super::flags::Flags;

/// Bit of a pagemap word (8 bytes for each page): set if the page is in memory.
const PRESENT: u64 = 1 << 63;
/// Bits of a pagemap word: the frame number; 0 if the kernel hides it from us.
const FRAME: u64 = (1 << 55) - 1;
/// Bit of a pagemap word: set if the page is mapped exactly once.
const EXCLUSIVE: u64 = 1 << 56;

/// Reads `/proc/PID/pagemap`, and the flags of frames, for pages of one process.
pub(super) struct Why<'a> {
    pid: u32,
    /// The process's open pagemap; `None` if it could not be opened.
    pagemap: Option<OwnedFd>,
    /// The part of the pagemap that was read last: its index, then its 512 words as bytes. Pages
    /// that were not paged out are often neighbours, so one read serves many of them.
    table: RefCell<Option<(u64, Vec<u8>)>>,
    flags: &'a Flags,
}

/// Number of pagemap words read at a time; then the size of a word in bytes.
const WORDS: u64 = 512;
const WORD_BYTES: usize = 8;

impl Why<'_> {
    /// Opens the pagemap of a process. If that fails, all reasons are found from the flags of
    /// frames.
    pub(super) fn open(pid: u32, flags: &Flags) -> Why<'_> {
        Why {
            pid,
            pagemap: access::open(pid, "pagemap").ok(),
            table: RefCell::new(None),
            flags,
        }
    }

    /// Returns the pagemap word of a page; `None` if it cannot be read.
    fn word(&self, page: u64) -> Option<u64> {
        let (number, at) = (page / WORDS, usize::try_from(page % WORDS).ok()?);
        let mut table = self.table.borrow_mut();
        if table.as_ref().is_none_or(|(of, _)| *of != number) {
            let mut bytes = vec![0; WORD_BYTES * 512];
            let file = self.pagemap.as_ref()?.as_fd();
            let offset = number * WORDS * WORD_BYTES as u64;
            let got = access::read_at((self.pid, file), offset, &mut bytes).ok()?;
            bytes.truncate(got);
            *table = Some((number, bytes));
        }
        let (_, bytes) = table.as_ref()?;
        let word = bytes.get(at * WORD_BYTES..(at + 1) * WORD_BYTES)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    /// Returns why MADV_PAGEOUT did not page out the page at `address`; `frame` is the frame that
    /// it had when its entry was read.
    pub(super) fn ask(&self, address: u64, frame: u64) -> PageOut {
        let entry = match self.word(address / PAGE_SIZE) {
            // The kernel has paged it out since; its frame may have another use by now.
            Some(entry) if entry & PRESENT == 0 => return PageOut::Stored,
            // The page left memory and is back in another frame.
            Some(entry) if entry & FRAME != 0 && entry & FRAME != frame => {
                return PageOut::Referenced;
            }
            entry => entry,
        };
        if self.flags.is_locked(frame) {
            return PageOut::Locked;
        }
        match entry {
            Some(entry) if entry & EXCLUSIVE == 0 => PageOut::Shared,
            _ => PageOut::Busy,
        }
    }
}
