//! Why a page did not leave.
//!
//! Invariant: what the kernel does not tell is `Busy`, never a guess.

use std::fs::File;

use engine::PageOut;

use super::flags::{Flags, word};
use crate::system::Proc;

/// In pagemap: in memory.
const PRESENT: u64 = 1 << 63;
/// In pagemap: its frame; 0 where it is hidden from us.
const FRAME: u64 = (1 << 55) - 1;
/// In pagemap: mapped exactly once.
const EXCLUSIVE: u64 = 1 << 56;

/// Asks the kernel about pages of one process.
pub(super) struct Why<'a> {
    pagemap: Option<File>,
    flags: &'a Flags,
}

impl Why<'_> {
    pub(super) fn open<'a>(proc: &Proc, pid: u32, flags: &'a Flags) -> Why<'a> {
        Why {
            pagemap: File::open(proc.path(pid, "pagemap")).ok(),
            flags,
        }
    }

    /// Of the page that was in this frame when its entry was read.
    pub(super) fn ask(&self, address: u64, frame: u64) -> PageOut {
        let entry = match word(self.pagemap.as_ref(), address / 4096) {
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
