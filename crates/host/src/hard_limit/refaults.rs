//! How often evicted memory of a cgroup had to be read again.
//!
//! Invariant: the counts are the kernel's since the cgroup was made, and include cgroups below it.

use std::io;

use rustix::io::Errno;

use super::HardLimit;
use crate::system::cgroup::parse_counter;

/// Counts of faults and of pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refaults {
    /// Page faults that had to read: swapped-out pages, and pages of mapped files.
    pub(crate) major_faults: u64,
    /// Anonymous pages that were swapped in after the kernel had evicted them.
    pub(crate) anon: u64,
    /// Pages of files that were read again after the kernel had evicted them: by page faults,
    /// through descriptors or by readahead.
    pub(crate) file: u64,
}

impl Refaults {
    /// Returns the counts since `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            anon: self.anon.saturating_sub(before.anon),
            file: self.file.saturating_sub(before.file),
        }
    }
}

impl HardLimit {
    /// Returns how often evicted memory of this cgroup was read again so far.
    ///
    /// # Errors
    /// A counter cannot be read, or the kernel has no such counter.
    pub(crate) fn refaults(&self) -> io::Result<Refaults> {
        let text = self.read("memory.stat")?;
        Ok(Refaults {
            major_faults: self.sum_in(&text, "pgmajfault")?,
            anon: self.sum_in(&text, "workingset_refault_anon")?,
            file: self.sum_in(&text, "workingset_refault_file")?,
        })
    }

    /// Returns the number of major faults of all tasks of this cgroup and of cgroups below it,
    /// since it was made.
    ///
    /// # Errors
    /// The counter cannot be read.
    pub fn majors(&self) -> io::Result<u64> {
        self.sum_in(&self.read("memory.stat")?, "pgmajfault")
    }

    /// Returns a counter in a text of memory.stat, with those of cgroups below.
    fn sum_in(&self, text: &[u8], name: &str) -> io::Result<u64> {
        let found = parse_counter(text, self.version(), name);
        found.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
    }
}
