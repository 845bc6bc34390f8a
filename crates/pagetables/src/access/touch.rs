//! Reads single bytes of another process's pages, so that the kernel's lists count the pages as
//! accessed.
//!
//! Invariant: no accessed bit in a page-table entry of a 4 KiB page changes. In the entry of a huge
//! page the kernel would set the bit. So a caller must not pass addresses in huge pages, or its
//! next scan takes this read for an access by the process.
//!
//! The kernel calls its function `mark_page_accessed` for each page that is read through
//! `/proc/PID/mem`. The system call process_vm_readv has the same effect, but it first copies each
//! page that the process shares with another process since a fork, and marks the copy.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::{Call, CallDeadline, Stage, is_own};
use crate::calls::worker::{DATA_BYTES, Operation};

/// Maximum number of pages in one call.
pub const TOUCHED_MAX: usize = DATA_BYTES / 8;

/// The result of [`touch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Number of pages that were read.
    pub pages: u64,
    /// Number of these pages that were in swap, so that the kernel read them into memory.
    pub swapped_in: u64,
}

/// Reads one byte, `times` times, of each page at `addresses` of a process.
///
/// `memory` is the process's open `/proc/PID/mem`. At most [`TOUCHED_MAX`] addresses are used.
/// Pages that cannot be read are skipped. A page in swap is read into memory; the call ends soon
/// after 16 such pages. If `pid` is this process, the call reads nothing.
///
/// # Errors
/// `ETIMEDOUT` if the process's memory is locked ([`super::is_locked`]); or no worker can be
/// started.
pub fn touch((pid, memory): (u32, &OwnedFd), addresses: &[u64], times: u8) -> io::Result<Touched> {
    if is_own(pid) {
        return Ok(Touched::default());
    }
    let mut call = Call::to((pid, Stage::Memory), CallDeadline::ORDINARY)?;
    let worker = call.worker();
    let header = worker.header();
    header.operation = Operation::ReadEach;
    header.flags = i32::from(times);
    header.count = addresses.len().min(TOUCHED_MAX) as u64;
    for (address, into) in addresses.iter().zip(worker.data().chunks_exact_mut(8)) {
        into.copy_from_slice(&address.to_ne_bytes());
    }
    let (pages, _) = call.make(Some(memory.as_fd()))?;
    Ok(Touched {
        pages: u64::try_from(pages).unwrap_or(0),
        swapped_in: call.worker().header().swapped_in,
    })
}
