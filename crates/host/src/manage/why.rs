//! Why a page did not leave.
//!
//! Invariant: what the kernel does not tell is `Busy`, never a guess.

use std::fs::File;
use std::os::unix::fs::FileExt;

use engine::PageOut;

use crate::system::Proc;

/// In pagemap: in memory.
const PRESENT: u64 = 1 << 63;
/// In pagemap: its frame; 0 where it is hidden from us.
const FRAME: u64 = (1 << 55) - 1;
/// In pagemap: mapped exactly once.
const EXCLUSIVE: u64 = 1 << 56;
/// In kpageflags (KPF_UNEVICTABLE, KPF_MLOCKED): locked in memory.
const LOCKED: u64 = 1 << 18 | 1 << 33;

/// In kpageflags.
const ANON: u64 = 1 << 12;

/// Asks the kernel about pages of one process.
pub(super) struct Why {
    pagemap: Option<File>,
    flags: Option<File>,
}

impl Why {
    pub(super) fn open(proc: &Proc, pid: u32) -> Why {
        Why {
            pagemap: File::open(proc.path(pid, "pagemap")).ok(),
            flags: File::open(proc.own_path("kpageflags")).ok(),
        }
    }

    /// Whether it is memory without a file: charged to the group of who touched it first, not of who read a file.
    pub(super) fn is_anon(&self, frame: u64) -> bool {
        word(self.flags.as_ref(), frame).is_some_and(|flags| flags & ANON != 0)
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
        if word(self.flags.as_ref(), frame).is_some_and(|flags| flags & LOCKED != 0) {
            return PageOut::Locked;
        }
        match entry {
            Some(entry) if entry & EXCLUSIVE == 0 => PageOut::Shared,
            _ => PageOut::Busy,
        }
    }
}

/// Word number `number` of such a file.
fn word(file: Option<&File>, number: u64) -> Option<u64> {
    let mut word = [0; 8];
    file?.read_exact_at(&mut word, number * 8).ok()?;
    Some(u64::from_ne_bytes(word))
}
