//! The present bit and the accessed bit of each page. Touches of a simulation read only this table,
//! which is small enough for a processor's cache (16 MB for 63 million pages).
//!
//! A block is a `u64` of 32 pages: the low half says which pages are present, the high half which
//! were accessed.
//!
//! Invariants, asserted together with those of the folio table: a page's present bit is set if and
//! only if its word says that it is present; only present pages have the accessed bit set.

use super::FolioId;
use alloc::vec::Vec;
use core::ops::Range;

/// Number of pages in a block.
const BLOCK: usize = 32;
const PRESENT: u64 = 0xffff_ffff;

/// The present and accessed bits of all pages of one folio table.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    blocks: Vec<u64>,
}

const fn block_and_bit(id: FolioId) -> (usize, u64) {
    (id.index() / BLOCK, 1 << (id.index() % BLOCK))
}

impl PageTable {
    pub(crate) const fn footprint(&self) -> usize {
        self.blocks.capacity() * 8
    }

    /// Makes ids below `len` valid, and reserves space for `capacity` ids.
    pub(crate) fn ensure(&mut self, len: usize, capacity: usize) {
        let blocks = len.div_ceil(BLOCK);
        if blocks > self.blocks.capacity() {
            let reserved = capacity.div_ceil(BLOCK).max(blocks);
            self.blocks.reserve_exact(reserved - self.blocks.len());
        }
        self.blocks.resize(blocks.max(self.blocks.len()), 0);
    }

    /// Drops the bits of ids from `len` on; keeps space for `capacity` ids.
    pub(crate) fn shrink(&mut self, len: usize, capacity: usize) {
        self.blocks.truncate(len.div_ceil(BLOCK));
        self.blocks.shrink_to(capacity.div_ceil(BLOCK));
    }

    /// Sets the accessed bit of a present page, without a branch; returns whether the page is
    /// present.
    #[inline]
    pub(crate) fn touch(&mut self, id: FolioId) -> bool {
        let (block, bit) = block_and_bit(id);
        let Some(block) = self.blocks.get_mut(block) else {
            return false;
        };
        let present = *block & bit;
        *block |= present << BLOCK;
        present != 0
    }

    /// Reads the blocks of `ids` and discards them, so that they are in the processor's cache. A
    /// processor can make many such loads at the same time. With a touch after each load it could
    /// not: touches that wait for their loads would soon fill its queues.
    #[inline]
    pub(crate) fn prefetch(&self, ids: &[FolioId]) {
        let blocks = ids.iter().map(|&id| self.blocks.get(block_and_bit(id).0));
        core::hint::black_box(blocks.fold(0, |all, block| all ^ block.copied().unwrap_or(0)));
    }

    #[inline]
    pub(crate) fn is_accessed(&self, id: FolioId) -> bool {
        let (block, bit) = block_and_bit(id);
        self.blocks
            .get(block)
            .is_some_and(|b| b & bit << BLOCK != 0)
    }

    /// Clears the accessed bit and returns whether it was set.
    #[inline]
    pub(crate) fn take_accessed(&mut self, id: FolioId) -> bool {
        let (block, bit) = block_and_bit(id);
        let Some(block) = self.blocks.get_mut(block) else {
            return false;
        };
        let was = *block & bit << BLOCK != 0;
        *block &= !(bit << BLOCK);
        was
    }

    #[inline]
    pub(crate) fn is_present(&self, id: FolioId) -> bool {
        let (block, bit) = block_and_bit(id);
        self.blocks.get(block).is_some_and(|b| b & bit != 0)
    }

    /// Makes the page present or absent, and clears its accessed bit.
    #[inline]
    pub(crate) fn set_present(&mut self, id: FolioId, present: bool) {
        let (block, bit) = block_and_bit(id);
        let other_bits = self.blocks[block] & !(bit | bit << BLOCK);
        self.blocks[block] = if present {
            other_bits | bit
        } else {
            other_bits
        };
    }

    /// Makes the pages of `run` absent.
    pub(crate) fn forget(&mut self, run: Range<usize>) {
        let mut at = run.start;
        while at < run.end {
            let (block, from) = (at / BLOCK, at % BLOCK);
            let nr = (BLOCK - from).min(run.end - at);
            let bits = (PRESENT >> (BLOCK - nr)) << from;
            self.blocks[block] &= !(bits | bits << BLOCK);
            at += nr;
        }
    }

    /// Corrupts the table for a test: sets the accessed bit of any page, present or not.
    #[cfg(test)]
    pub(crate) fn plant_accessed(&mut self, id: FolioId) {
        let (block, bit) = block_and_bit(id);
        self.blocks[block] |= bit << BLOCK;
    }

    /// Returns the number of blocks of 32 pages.
    pub(crate) const fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the accessed bits of a block, the lowest bit for its first page, without clearing
    /// them.
    #[inline]
    pub(crate) fn accessed_in(&self, block: usize) -> u32 {
        u32::try_from(self.blocks[block] >> BLOCK).unwrap_or(0)
    }

    /// Returns the id of the page whose bit in the result of [`Self::accessed_in`] is `bit`, a word
    /// with a single bit set.
    #[inline]
    pub(crate) fn id(block: usize, bit: u32) -> FolioId {
        let first = u32::try_from(block * BLOCK).unwrap_or(u32::MAX);
        FolioId(first + bit.trailing_zeros())
    }

    /// Clears the accessed bits of those pages of a block whose bits are set in `mask`.
    #[inline]
    pub(crate) fn clear_in(&mut self, block: usize, mask: u32) {
        self.blocks[block] &= !(u64::from(mask) << BLOCK);
    }

    /// Returns the number of pages present, and whether any page is accessed without being present.
    pub(crate) fn present_and_stray(&self) -> (usize, bool) {
        let present = self.blocks.iter().map(|b| (b & PRESENT).count_ones());
        let stray = self.blocks.iter().any(|b| (b >> BLOCK) & !b != 0);
        (present.map(|n| n as usize).sum(), stray)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_present_pages_become_accessed() {
        let mut table = PageTable::default();
        table.ensure(70, 70);
        table.set_present(FolioId(63), true);
        assert!(table.touch(FolioId(63)) && table.is_accessed(FolioId(63)));
        assert!(!table.touch(FolioId(31)) && !table.touch(FolioId(500)));
        assert_eq!(
            (table.present_and_stray(), table.accessed_in(1)),
            ((1, false), 1 << 31)
        );
        assert!(table.take_accessed(FolioId(63)) && !table.take_accessed(FolioId(63)));
    }

    #[test]
    fn removal_and_insertion_clear_the_accessed_bit_of_that_page_only() {
        let mut table = PageTable::default();
        table.ensure(64, 64);
        (0..64).for_each(|id| table.set_present(FolioId(id), true));
        (0..64).for_each(|id| assert!(table.touch(FolioId(id))));
        table.set_present(FolioId(40), false);
        table.set_present(FolioId(40), true);
        table.clear_in(0, 0b101);
        let accessed = (0..64).filter(|&id| table.is_accessed(FolioId(id)));
        assert_eq!(accessed.count(), 61);
        assert_eq!(table.present_and_stray(), (64, false));
    }

    #[test]
    fn a_quarter_byte_a_page() {
        let mut table = PageTable::default();
        table.ensure(1 << 20, 1 << 20);
        assert_eq!(table.footprint(), 1 << 18);
    }
}
