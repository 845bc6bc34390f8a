//! Sums of one process's walk, and reasons for unknown ages.
//!
//! Invariant: counts are pages of 4 KiB in this process's own page tables. A page that several
//! processes map is in the sums of each, but only once in the age table.

use std::io::ErrorKind;
use std::time::Duration;

/// Numbers of pages that one walk found in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalkSums {
    /// Present pages, as the kernel's Rss counts them: without zero pages, device memory and
    /// hugetlb.
    pub present: u64,
    /// Number of present entries: of anonymous memory, then of files. A huge page has one entry.
    /// Clearing bits visits all of them.
    pub entries: [u64; 2],
    /// Number of page tables that contain these entries: of anonymous memory, then of files.
    pub tables: [u64; 2],
    /// Number of present entries with the accessed bit set: of anonymous memory, then of files.
    pub accessed: [u64; 2],
    /// Private pages that are in swap.
    pub swapped: u64,
    /// Pages that are being migrated, poisoned or guarded: neither present nor in swap.
    pub other: u64,
    /// Present pages of large folios in which a foreign clearer has cleared accessed bits.
    pub vague: u64,
    /// Pages whose page tables changed while they were read.
    pub unsure: u64,
    /// Present pages of the hugetlb pool.
    pub hugetlb: u64,
}

/// Cost of visiting one page table, as a number of entries. (Clearing 30,000 tables with one page
/// each took 148 ms, about 5 us a table.)
const TABLE_ENTRIES: u64 = 80;

/// Returns the cost of clearing, as a number of entries in full tables: of anonymous memory, then
/// of files. `entries` and `tables` are in the same order.
pub(super) fn work(entries: [u64; 2], tables: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|part| entries[part] + tables[part] * TABLE_ENTRIES)
}

/// Reason why ages of a process are unknown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hidden {
    /// A secondary MMU (of a virtual machine or device) accesses the memory; page tables do not
    /// show that.
    SecondaryMmu,
    /// Clearing the bits would delay the process's page faults for about this time.
    Stall(Duration),
    /// The process's mmap_lock is held: clearing bits would wait for it, perhaps without end.
    Locked,
    /// We may not clear the bits; the kernel's error.
    Denied(ErrorKind),
    /// A foreign clearer cleared accessed bits of large folios.
    Foreign,
    /// A process that shares the memory has one of the other reasons.
    Shared,
    /// Another pagetide clears the bits.
    Contested,
    /// The process has not been scanned yet: scans of its tenant have used up their share of time.
    Late,
    /// The process is not scanned: pagetide's own memory for ages is limited.
    NoRoom,
    /// The source provides no accessed bits.
    NoSource,
}

impl Hidden {
    /// Returns whether both are the same reason, whatever time or error they contain.
    #[must_use]
    pub fn is_like(&self, other: &Hidden) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Returns the reason in words for users.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Hidden::SecondaryMmu => {
                "accessed by a virtual machine or a device, which page tables do not show"
                    .to_owned()
            }
            Hidden::Stall(time) => format!(
                "clearing accessed bits would stall the program for up to {} ms, longer than --max-wait of the pagetide that scans it allows",
                time.as_millis() + 1
            ),
            Hidden::Locked => {
                "its memory is locked (does it wait for a file server?): accessed bits cannot be cleared"
                    .to_owned()
            }
            Hidden::Contested => {
                "another pagetide scans it and clears its accessed bits: only one can at a time"
                    .to_owned()
            }
            Hidden::Denied(ErrorKind::ReadOnlyFilesystem) => {
                "accessed bits may not be cleared: /proc is mounted read-only".to_owned()
            }
            Hidden::Denied(_) => {
                "accessed bits may not be cleared (CAP_DAC_OVERRIDE, or the process's own user)"
                    .to_owned()
            }
            Hidden::Foreign => {
                "parts of large folios whose accessed bits another tool cleared (DAMON?)"
                    .to_owned()
            }
            Hidden::Shared => "shared with a process whose accesses are not known".to_owned(),
            Hidden::Late => {
                "not read yet: scans of its tenant, or first scans of others, cost more than their share".to_owned()
            }
            Hidden::NoRoom => {
                "not read: pagetide's own memory is limited, and the ages of its pages do not fit (see --own-memory of `pagetide serve`)"
                    .to_owned()
            }
            Hidden::NoSource => {
                "no source of accessed bits works here (see `pagetide doctor`)".to_owned()
            }
        }
    }
}
