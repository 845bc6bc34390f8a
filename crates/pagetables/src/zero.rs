//! The huge zero page: what a huge page of memory that was only read is, before it is written.
//!
//! Invariant: a page is taken for it only if the kernel says so (`KPF_ZERO_PAGE` in `/proc/kpageflags`,
//! admin-guide/mm/pagemap.rst). Since Linux 6.18 its entry is marked special, and nobody is asked.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::entry::Entry;

const ZERO_PAGE: u64 = 1 << 24;

/// Asks the kernel.
#[derive(Debug)]
pub(crate) struct HugeZero(Option<File>);

impl HugeZero {
    /// Without the right to ask (CAP_SYS_ADMIN) no page is taken for it.
    pub(crate) fn open() -> HugeZero {
        HugeZero(File::open("/proc/kpageflags").ok())
    }

    /// Whether an entry could be its: present, never written.
    pub(crate) fn may_be(entry: Entry) -> bool {
        entry.is_huge() && !entry.is_special() && !entry.is_writable() && !entry.is_dirty()
    }

    /// Whether the frame is its first.
    pub(crate) fn is(&self, frame: u64) -> bool {
        let mut flags = [0; 8];
        let Some(file) = &self.0 else {
            return false;
        };
        file.read_exact_at(&mut flags, frame.saturating_mul(8))
            .is_ok()
            && u64::from_ne_bytes(flags) & ZERO_PAGE != 0
    }
}
