//! What a reading of one process adds up to.
//!
//! Invariant: counts are pages of 4 KiB, of this process's own tables: what is shared is counted here
//! for each that maps it, and once in the books.

use std::io::ErrorKind;
use std::time::Duration;

/// Sums of one reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadingSums {
    /// Pages present, as the kernel's Rss counts them (no zero page, no device, no hugetlb).
    pub present: u64,
    /// Entries that are present, of each part that is cleared by itself; a huge page is one. What clearing
    /// has to go through.
    pub entries: [u64; 2],
    /// Tables that hold them, of each part.
    pub tables: [u64; 2],
    /// Of these, entries with the accessed bit set.
    pub accessed: [u64; 2],
    /// Pages in swap, by entries: private memory.
    pub swapped: u64,
    /// Pages being migrated, poisoned, guarded: neither here nor in swap.
    pub other: u64,
    /// Present pages of large folios of which somebody else cleared accessed bits.
    pub vague: u64,
    /// Pages whose tables changed while they were read.
    pub unsure: u64,
    /// Present pages of the hugetlb pool.
    pub hugetlb: u64,
}

/// What going through one table costs, in entries: clearing 30,000 tables of one page each took 148 ms, some 5 us a table.
const TABLE_ENTRIES: u64 = 80;

/// What it costs to go through these tables, in entries of full ones.
pub(super) fn work(entries: [u64; 2], tables: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|part| entries[part] + tables[part] * TABLE_ENTRIES)
}

/// Why ages of a process are not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hidden {
    /// A secondary MMU accesses its memory, and entries do not show it.
    SecondaryMmu,
    /// Clearing the bits would hold it up for about so long.
    Stall(Duration),
    /// Its memory is locked: who clears bits would wait for it without end.
    Locked,
    /// Its bits may not be cleared.
    Denied(ErrorKind),
    /// Somebody else cleared accessed bits of large folios.
    Foreign,
    /// Shared with a process of which one of these holds.
    Shared,
    /// Another pagetide clears its bits.
    Contested,
    /// It was not read yet: its tenant has cost more than its share of scans.
    Late,
    /// The source knows no bits.
    NoSource,
}

impl Hidden {
    /// Whether it is the same reason, whatever its figures.
    #[must_use]
    pub fn is_like(&self, other: &Hidden) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The reason in words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Hidden::SecondaryMmu => {
                "accessed by a virtual machine or a device, which page tables do not show"
                    .to_owned()
            }
            Hidden::Stall(time) => format!(
                "clearing accessed bits would hold the program up too long, for up to {} ms (--max-wait of who looks at it)",
                time.as_millis() + 1
            ),
            Hidden::Locked => {
                "its memory is locked (does it wait for a file server?): accessed bits cannot be cleared"
                    .to_owned()
            }
            Hidden::Contested => {
                "another pagetide looks at it and clears its accessed bits: one at a time can"
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
                "parts of large folios whose accessed bits somebody else cleared (DAMON?)"
                    .to_owned()
            }
            Hidden::Shared => "shared with a process whose accesses are not known".to_owned(),
            Hidden::Late => {
                "not read yet: scans of its tenant cost more than their share".to_owned()
            }
            Hidden::NoSource => {
                "no source of accessed bits works here (see `pagetide doctor`)".to_owned()
            }
        }
    }
}
