//! One entry of an x86-64 page table, as the hardware and Linux write it.
//!
//! Invariant: nothing is inferred beyond the bits of the entry. If a page of a file or of shared
//! memory was evicted, its entry is *empty*: the kernel finds such a page by its file, not by the
//! entry. An empty entry does not count as swapped.

/// Bytes of the page that an entry of the last level maps.
pub const PAGE_SIZE: u64 = 4096;

/// Bits of an entry (Intel SDM vol. 3, 4.5), and Linux's software bits where noted.
mod bit {
    pub(super) const PRESENT: u64 = 1;
    pub(super) const WRITABLE: u64 = 1 << 1;
    pub(super) const ACCESSED: u64 = 1 << 5;
    pub(super) const DIRTY: u64 = 1 << 6;
    /// In an entry above the last level: the entry maps a huge page, there is no table below.
    pub(super) const HUGE: u64 = 1 << 7;
    /// Linux: present for the kernel but not for the hardware (`PROT_NONE`, NUMA hinting), if
    /// PRESENT is clear.
    pub(super) const PROT_NONE: u64 = 1 << 8;
    /// Linux: the entry maps no page of the page allocator (zero page, device memory).
    pub(super) const SPECIAL: u64 = 1 << 9;
    /// Set by this crate in its own copies of entries (`Entry::is_vague`). Neither the hardware nor
    /// Linux uses this bit.
    pub(super) const VAGUE: u64 = 1 << 52;
    /// Linux since 6.6: the page is dirty. Stands for DIRTY in a write-protected entry.
    pub(super) const SAVED_DIRTY: u64 = 1 << 58;
}

/// What an entry refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No page: it was never touched, or was evicted without a trace in the table.
    Empty,
    /// A page in memory, or the next table.
    Present,
    /// A page in swap.
    Swapped,
    /// Something else: a page under migration, a poisoned page, a guard, a userfaultfd marker,
    /// device memory.
    Other,
}

/// A page-table entry of 64 bits, as it is in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Entry(pub u64);

/// Swap types from this number on stand for migration, poison, markers and device memory. Swap
/// areas are numbered from 0; a kernel with all these features has numbers 0 to 22 for swap areas.
const SWAP_TYPES: u64 = 23;

impl Entry {
    /// A present and accessed page. Stands for an entry that could not be read because it changed
    /// at every try.
    pub const IN_USE: Entry = Entry(bit::PRESENT | bit::ACCESSED);

    /// The entry that one 4 KiB page of this huge page would have if it were mapped on its own.
    /// `offset`: that page's offset in the huge page, in bytes.
    #[must_use]
    pub const fn part_at(self, offset: u64) -> Entry {
        if !self.is_present() {
            return self;
        }
        // If PRESENT is clear, Linux stores the address inverted, as a protection against L1TF.
        if self.0 & bit::PRESENT == 0 {
            return Entry(self.0 - offset);
        }
        // A huge entry has a flag (PAT) in bit 12, which in other entries is a bit of the address.
        Entry((self.0 & !bit::HUGE & !(1 << 12)) + offset)
    }

    /// What the entry refers to.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> Kind {
        if self.is_present() {
            return Kind::Present;
        }
        // An erratum of old processors sets A and D in an entry that is not present; Linux ignores
        // both.
        if self.0 & !(bit::ACCESSED | bit::DIRTY) == 0 {
            return Kind::Empty;
        }
        if self.0 >> 59 < SWAP_TYPES {
            Kind::Swapped
        } else {
            Kind::Other
        }
    }

    /// Whether the entry is [`Kind::Present`].
    #[must_use]
    #[inline]
    pub const fn is_present(self) -> bool {
        // The entry of a huge page that is being split has neither PRESENT nor PROT_NONE for a
        // moment, but HUGE (Linux's `pmd_present`); it must not count as swapped.
        self.0 & (bit::PRESENT | bit::PROT_NONE | bit::HUGE) != 0
    }

    /// Whether the processor used the entry since its accessed bit was last cleared. Meaningful
    /// only if the entry is present.
    #[must_use]
    #[inline]
    pub const fn is_accessed(self) -> bool {
        self.0 & bit::ACCESSED != 0
    }

    /// Returns the entry with its accessed bit set again, after a foreign clearer cleared it.
    #[must_use]
    pub(crate) const fn accessed(self) -> Entry {
        Entry(self.0 | bit::ACCESSED)
    }

    /// Returns the entry changed so that [`Entry::is_special`] is true.
    #[must_use]
    pub(crate) const fn special(self) -> Entry {
        Entry(self.0 | bit::SPECIAL)
    }

    /// Returns the entry changed so that [`Entry::is_vague`] is true.
    #[must_use]
    pub(crate) const fn vague(self) -> Entry {
        Entry(self.0 | bit::VAGUE)
    }

    /// Whether it is unknown if the page was accessed. A foreign clearer (DAMON, idle page
    /// tracking) cleared accessed bits of some pages of the same folio, and at least one of these
    /// bits was set.
    #[must_use]
    #[inline]
    pub const fn is_vague(self) -> bool {
        self.0 & bit::VAGUE != 0
    }

    /// Whether the page was written since the kernel last counted it as clean.
    #[must_use]
    #[inline]
    pub const fn is_dirty(self) -> bool {
        self.0 & (bit::DIRTY | bit::SAVED_DIRTY) != 0
    }

    /// Whether the processor may write to the page through this entry.
    #[must_use]
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.0 & bit::WRITABLE != 0
    }

    /// Whether the entry maps a huge page. Meaningful only for entries above the last level of
    /// tables.
    #[must_use]
    #[inline]
    pub const fn is_huge(self) -> bool {
        self.is_present() && self.0 & bit::HUGE != 0
    }

    /// Whether the entry maps no page that counts as resident: the zero page, device memory. (Linux
    /// marks the huge zero page in this way only since 6.18.)
    #[must_use]
    #[inline]
    pub const fn is_special(self) -> bool {
        self.0 & bit::SPECIAL != 0
    }

    /// Returns the physical address of the page or table, in bytes. `mask` has the processor's
    /// physical address bits, without a bit of memory encryption. If the hardware must not use the
    /// entry, Linux stores the address inverted (L1TF); this function inverts it back.
    #[must_use]
    #[inline]
    pub const fn physical(self, mask: u64) -> u64 {
        let mask = mask & !bit::VAGUE;
        if self.0 & bit::PRESENT == 0 {
            return !self.0 & mask;
        }
        self.0 & mask
    }

    /// Whether two copies of an entry, read at different times, point to the same table.
    #[must_use]
    #[inline]
    pub(crate) const fn leads_to_same_table(self, other: Entry, mask: u64) -> bool {
        (self.0 ^ other.0) & (mask | bit::PRESENT | bit::HUGE) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: u64 = (1 << 46) - 4096;

    #[test]
    fn entries_of_each_kind_are_recognized() {
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
