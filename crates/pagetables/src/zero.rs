//! The huge zero page: what the kernel maps for a huge page that was read and never written.
//!
//! Invariant: a page counts as the huge zero page only if the kernel says so (`KPF_ZERO_PAGE` in
//! `/proc/kpageflags`, admin-guide/mm/pagemap.rst). Since Linux 6.18 the page's entry is marked
//! special, and that file is not needed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::entry::Entry;

/// `KPF_ZERO_PAGE`, as a bit of an entry of `/proc/kpageflags`.
const ZERO_PAGE: u64 = 1 << 24;

/// The open `/proc/kpageflags`; `None` without the right to read it.
#[derive(Debug)]
pub(crate) struct HugeZero(Option<File>);

impl HugeZero {
    /// Opens `/proc/kpageflags`. Without the right to do so (CAP_SYS_ADMIN), no page is recognized
    /// as the huge zero page.
    pub(crate) fn open() -> HugeZero {
        HugeZero(File::open("/proc/kpageflags").ok())
    }

    /// Whether an entry may map the huge zero page: it is huge, not writable and not dirty.
    pub(crate) fn may_be(entry: Entry) -> bool {
        entry.is_huge() && !entry.is_special() && !entry.is_writable() && !entry.is_dirty()
    }

    /// Whether the frame with this number is the first one of the huge zero page.
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
