//! One entry of an x86-64 page table, as the hardware and Linux write it.
//!
//! Invariant: an entry says what it says and no more. What the kernel keeps elsewhere (where an evicted
//! page of a file or of shared memory is) is an *empty* entry, and that is not read as "swapped".

/// Bits of an entry (Intel SDM vol. 3, 4.5; Linux' software bits where it says so).
mod bit {
    pub(super) const PRESENT: u64 = 1;
    pub(super) const WRITABLE: u64 = 1 << 1;
    pub(super) const ACCESSED: u64 = 1 << 5;
    pub(super) const DIRTY: u64 = 1 << 6;
    /// In an entry above the last level: this is the page, there is no table below.
    pub(super) const HUGE: u64 = 1 << 7;
    /// Linux: present for the kernel but not for the hardware (`PROT_NONE`, NUMA hinting), if not PRESENT.
    pub(super) const PROT_NONE: u64 = 1 << 8;
    /// Linux: no page of the page allocator behind it (zero page, device memory).
    pub(super) const SPECIAL: u64 = 1 << 9;
    /// Ours, in copies only; nobody uses this bit of an entry: see `Entry::is_vague`.
    pub(super) const VAGUE: u64 = 1 << 52;
    /// Linux since 6.6: dirty, in an entry that is write-protected.
    pub(super) const SAVED_DIRTY: u64 = 1 << 58;
}

/// What an entry stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing here: never touched, or evicted by means that leave no trace in the table.
    Empty,
    /// A page in memory, or the next table.
    Present,
    /// A page in swap.
    Swapped,
    /// Neither: being migrated, poisoned, a guard, a userfaultfd marker, device memory.
    Other,
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Entry(pub u64);

/// Swap types from here up are migration, poison, markers and device memory. Swap areas are numbered
/// from 0, and a kernel with every such option leaves 23 numbers for them.
const SWAP_TYPES: u64 = 23;

impl Entry {
    /// A present page that is in use: what stands for an entry that changes all the time.
    pub const IN_USE: Entry = Entry(bit::PRESENT | bit::ACCESSED);

    /// The entry that a page `offset` bytes into a huge page would have by itself.
    #[must_use]
    pub const fn part_at(self, offset: u64) -> Entry {
        if !self.is_present() {
            return self;
        }
        // Linux keeps addresses inverted where the hardware must not use them.
        if self.0 & bit::PRESENT == 0 {
            return Entry(self.0 - offset);
        }
        // Where a huge entry has its flags (PAT, bit 12), an address has bits.
        Entry((self.0 & !bit::HUGE & !(1 << 12)) + offset)
    }

    /// What it stands for.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> Kind {
        if self.is_present() {
            return Kind::Present;
        }
        // An old processor's erratum sets A and D in an entry that is not present; Linux ignores both.
        if self.0 & !(bit::ACCESSED | bit::DIRTY) == 0 {
            return Kind::Empty;
        }
        if self.0 >> 59 < SWAP_TYPES {
            Kind::Swapped
        } else {
            Kind::Other
        }
    }

    /// Whether it is [`Kind::Present`].
    #[must_use]
    #[inline]
    pub const fn is_present(self) -> bool {
        // A huge one that is being split has neither for a moment (Linux' `pmd_present`): it was told as 512 pages in swap.
        self.0 & (bit::PRESENT | bit::PROT_NONE | bit::HUGE) != 0
    }

    /// Whether the processor used it since the bit was last cleared. Of present entries only.
    #[must_use]
    #[inline]
    pub const fn is_accessed(self) -> bool {
        self.0 & bit::ACCESSED != 0
    }

    /// The same entry with its accessed bit set: somebody else had cleared it.
    #[must_use]
    pub(crate) const fn accessed(self) -> Entry {
        Entry(self.0 | bit::ACCESSED)
    }

    /// The same entry as [`Entry::is_special`].
    #[must_use]
    pub(crate) const fn special(self) -> Entry {
        Entry(self.0 | bit::SPECIAL)
    }

    /// The same entry as [`Entry::is_vague`].
    #[must_use]
    pub(crate) const fn vague(self) -> Entry {
        Entry(self.0 | bit::VAGUE)
    }

    /// Whether it is not known if the page was accessed: somebody else cleared accessed bits of the
    /// folio that it is a part of, and one of them was set.
    #[must_use]
    #[inline]
    pub const fn is_vague(self) -> bool {
        self.0 & bit::VAGUE != 0
    }

    /// Whether the page was written since it was last clean.
    #[must_use]
    #[inline]
    pub const fn is_dirty(self) -> bool {
        self.0 & (bit::DIRTY | bit::SAVED_DIRTY) != 0
    }

    /// Whether the processor may write through it.
    #[must_use]
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.0 & bit::WRITABLE != 0
    }

    /// Above the last level: whether it is a huge page rather than a table.
    #[must_use]
    #[inline]
    pub const fn is_huge(self) -> bool {
        self.is_present() && self.0 & bit::HUGE != 0
    }

    /// Whether no page that counts as resident is behind it: the zero page, memory of a device. (A huge
    /// zero page is marked so since Linux 6.18 only.)
    #[must_use]
    #[inline]
    pub const fn is_special(self) -> bool {
        self.0 & bit::SPECIAL != 0
    }

    /// The physical address in it, under `mask` (the processor's physical address bits, which leaves an
    /// encryption bit out). Linux stores it inverted where the hardware must not use it (L1TF).
    #[must_use]
    #[inline]
    pub const fn physical(self, mask: u64) -> u64 {
        let mask = mask & !bit::VAGUE;
        if self.0 & bit::PRESENT == 0 {
            return !self.0 & mask;
        }
        self.0 & mask
    }

    /// Whether two readings of an entry lead to the same table.
    #[must_use]
    #[inline]
    pub(crate) const fn leads_where(self, other: Entry, mask: u64) -> bool {
        (self.0 ^ other.0) & (mask | bit::PRESENT | bit::HUGE) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: u64 = (1 << 46) - 4096;

    #[test]
    fn each_kind() {
        assert_eq!(Entry(0).kind(), Kind::Empty);
        assert_eq!(Entry(0x60).kind(), Kind::Empty, "an erratum's A and D");
        assert_eq!(Entry(0x8000_0001_2345_6067).kind(), Kind::Present);
        assert_eq!(Entry(0x100).kind(), Kind::Present, "PROT_NONE");
        let swap = |kind: u64| Entry(kind << 59 | (!7u64 << 9 & ((1 << 59) - 1)));
        assert_eq!(swap(0).kind(), Kind::Swapped);
        assert_eq!(swap(22).kind(), Kind::Swapped);
        for kind in 23..32 {
            assert_eq!(swap(kind).kind(), Kind::Other, "type {kind}");
        }
    }

    #[test]
    fn the_address_of_a_page_that_the_hardware_must_not_use_is_inverted() {
        let physical = 0x1_2345_6000;
        let present = Entry(physical | 0x8000_0000_0000_0067);
        assert_eq!(present.physical(MASK), physical);
        let numa = Entry((!physical & ((1 << 52) - 4096)) | 0x120);
        assert!(numa.is_present() && numa.is_accessed());
        assert_eq!(numa.physical(MASK), physical);
    }

    #[test]
    fn a_huge_page_that_is_being_split_is_in_memory() {
        let physical = 0x1_2340_0000;
        let split = Entry(1 << 63 | !physical & MASK | 0xe6);
        assert_eq!(split.kind(), Kind::Present);
        assert!(split.is_huge());
        assert_eq!(split.physical(MASK), physical);
        assert_eq!(split.part_at(0x5000).physical(MASK), physical + 0x5000);
    }

    #[test]
    fn an_encryption_bit_is_no_address() {
        let physical = 0x1_2345_6000;
        let encrypted = Entry(physical | 1 << 47 | 0x67);
        assert_eq!(encrypted.physical(MASK), physical);
    }

    #[test]
    fn flags() {
        let saved = Entry(1 << 58 | 1);
        assert!(saved.is_dirty() && !saved.is_writable() && !saved.is_accessed());
        assert!(Entry(0x81).is_huge() && !Entry(0x1).is_huge());
        assert!(Entry(0x225).is_special() && !Entry(0x25).is_special());
    }
}
