//! Why a page did not leave.
//!
//! Invariant: what the kernel does not tell is `Busy`, never a guess.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};

use engine::PageOut;
use pagetables::access;

use super::flags::Flags;

/// In pagemap: in memory.
const PRESENT: u64 = 1 << 63;
/// In pagemap: its frame; 0 where it is hidden from us.
const FRAME: u64 = (1 << 55) - 1;
/// In pagemap: mapped exactly once.
const EXCLUSIVE: u64 = 1 << 56;

/// Asks the kernel about pages of one process.
pub(super) struct Why<'a> {
    pid: u32,
    pagemap: Option<OwnedFd>,
    /// Words of the table that was asked about last, by its number: pages that stay are neighbours.
    table: RefCell<Option<(u64, Vec<u8>)>>,
    flags: &'a Flags,
}

/// Words of a table, and their bytes.
const WORDS: u64 = 512;
const WORD_BYTES: usize = 8;

impl Why<'_> {
    pub(super) fn open(pid: u32, flags: &Flags) -> Why<'_> {
        Why {
            pid,
            pagemap: access::open(pid, "pagemap").ok(),
            table: RefCell::new(None),
            flags,
        }
    }

    /// What pagemap says of a page; none if it cannot be read.
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

    /// Of the page that was in this frame when its entry was read.
    pub(super) fn ask(&self, address: u64, frame: u64) -> PageOut {
        let entry = match self.word(address / 4096) {
            // The kernel has taken it since, and the frame is somebody else's, or will be.
            Some(entry) if entry & PRESENT == 0 => return PageOut::Stored,
            // It left, and is back.
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
