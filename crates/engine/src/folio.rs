//! Folios (units of memory that are reclaimed as a whole; here always single pages) and the table
//! of their states.
//!
//! The embedder chooses the id of a folio ([`FolioId`]). A lruvec owns the table of its folios,
//! which has 4 bytes for each id, also for ids without a page; so ids should be dense.
//!
//! Invariants: an id beyond the table's end behaves as [`State::Absent`] and cannot be inserted
//! before [`FolioTable::ensure`]; the table ends no earlier than the last id with a non-zero word;
//! only present pages have an accessed bit (`page_table.rs`).

mod page_table;

use crate::word::{Flag, State, Word};
use alloc::vec::Vec;
use core::ops::Range;
use page_table::PageTable;

/// Index of a folio within its lruvec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolioId(pub u32);

impl FolioId {
    /// Number of bits of an id, as many as fit into a list entry: enough for 2 TiB of 4 KiB pages
    /// in one lruvec.
    pub const BITS: u32 = 29;

    /// Returns the id as an index into the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Function that returns whether the VMA that maps a page has recency (the kernel's
/// `vma_has_recency`). It is called each time the page's accessed bit is read.
/// spec: reclaim-control.md 6.1.
pub(crate) type Recency<'a> = &'a dyn Fn(FolioId) -> bool;

/// The two kinds of pages that reclaim distinguishes.
/// spec: lru-gen.md 1 (lazyfree pages are of type file).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FolioType {
    /// Pages that are written to swap.
    Anon = 0,
    /// Pages that need no swap: backed by a file, or lazyfree.
    File = 1,
}

impl FolioType {
    /// Both types, in the kernel's index order.
    pub const ALL: [Self; 2] = [Self::Anon, Self::File];

    /// Returns the array index of this type.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the other of the two types.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Anon => Self::File,
            Self::File => Self::Anon,
        }
    }
}

impl Word {
    /// Returns the type of a present page.
    #[must_use]
    pub const fn folio_type(self) -> FolioType {
        if self.has(Flag::File) {
            FolioType::File
        } else {
            FolioType::Anon
        }
    }

    /// Returns the type that the page had when it was evicted.
    pub(crate) const fn shadow_type(self) -> FolioType {
        if self.shadow_is_file() {
            FolioType::File
        } else {
            FolioType::Anon
        }
    }
}

/// Number of pages that [`FolioTable::touch_all`] reads ahead: their accessed bits fit into a
/// first-level cache.
const TOUCHES_AHEAD: usize = 512;

/// The state words and accessed bits of all folios of one lruvec.
#[derive(Debug, Default)]
pub struct FolioTable {
    words: Vec<u32>,
    bits: PageTable,
}

impl FolioTable {
    /// Returns the number of ids in the table, including ids without a page.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the table has no ids.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the memory that the table occupies, in bytes.
    #[must_use]
    pub const fn footprint(&self) -> usize {
        self.words.capacity() * 4 + self.bits.footprint()
    }

    /// Makes all ids below `len` valid. A table that was grown in one step has exactly 4.25 bytes
    /// an id. Further steps reserve up to 1/64 spare capacity, so that growth in small steps takes
    /// linear time.
    ///
    /// # Panics
    /// When `len` exceeds 2^29, the number of ids that list entries can name.
    pub fn ensure(&mut self, len: usize) {
        assert!(len <= 1 << FolioId::BITS, "folio ids are limited to 2^29");
        if len <= self.words.len() {
            return;
        }
        if len > self.words.capacity() {
            let spare = if self.words.is_empty() {
                0
            } else {
                self.words.len() / 64
            };
            let target = len.max(self.words.len() + spare);
            self.words.reserve_exact(target - self.words.len());
        }
        self.words.resize(len, 0);
        self.bits.ensure(len, self.words.capacity());
    }

    /// Shortens the table to `len` ids, or to just after the last id with a non-zero word if that
    /// is longer, and frees the rest of its memory.
    pub(crate) fn shrink(&mut self, len: usize) {
        let used = self.words.iter().rposition(|&raw| raw != 0);
        let len = len.max(used.map_or(0, |last| last + 1));
        if len < self.words.len() {
            self.words.truncate(len);
            self.words.shrink_to(len + len / 64);
            self.bits.shrink(len, self.words.capacity());
        }
    }

    /// Returns the state word of `id`; for ids beyond the table's end a word in state
    /// [`State::Absent`].
    #[must_use]
    #[inline]
    pub fn get(&self, id: FolioId) -> Word {
        self.words
            .get(id.index())
            .map_or(Word::default(), |&raw| Word::from_raw(raw))
    }

    /// Stores the word of `id`. If this makes the page present or absent, its accessed bit is
    /// cleared.
    #[inline]
    pub(crate) fn set(&mut self, id: FolioId, word: Word) {
        let slot = &mut self.words[id.index()];
        let was = Word::from_raw(core::mem::replace(slot, word.raw()));
        if was.is_present() != word.is_present() {
            self.bits.set_present(id, word.is_present());
        }
    }

    /// Makes the pages of `run` absent. All of them must be within the table.
    pub(crate) fn forget(&mut self, run: Range<u32>) {
        let run = run.start as usize..run.end as usize;
        for raw in &mut self.words[run.clone()] {
            *raw = Word::from_raw(*raw).into_state(State::Absent).raw();
        }
        self.bits.forget(run);
    }

    /// Sets the accessed bit, as the hardware does on an access; for simulations. Returns false,
    /// and does nothing, if the page is not present.
    #[inline]
    pub fn touch(&mut self, id: FolioId) -> bool {
        self.bits.touch(id)
    }

    /// Calls [`Self::touch`] for many pages. Appends the ids of absent pages to `missing`, in the
    /// order of `ids`, with repetitions. Faster than single calls, because memory accesses overlap,
    /// and no branch can be mispredicted.
    pub fn touch_all(&mut self, ids: &[FolioId], missing: &mut Vec<FolioId>) {
        let mut end = missing.len();
        missing.resize(end + ids.len(), FolioId(0));
        for ids in ids.chunks(TOUCHES_AHEAD) {
            self.bits.prefetch(ids);
            for &id in ids {
                missing[end] = id;
                end += usize::from(!self.bits.touch(id));
            }
        }
        missing.truncate(end);
    }

    /// Whether the page was touched since its accessed bit was last cleared.
    #[must_use]
    pub fn is_accessed(&self, id: FolioId) -> bool {
        self.bits.is_accessed(id)
    }

    /// Clears the accessed bit and returns whether it was set.
    pub(crate) fn take_accessed(&mut self, id: FolioId) -> bool {
        self.bits.take_accessed(id)
    }

    /// Loads the words of `ids` into the processor's cache, with many loads at a time, before the
    /// caller reads them one by one.
    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = FolioId>) {
        let all = ids.fold(0, |all, id| all ^ self.get(id).raw());
        core::hint::black_box(all);
    }

    /// Loads the accessed bits of `ids` into the processor's cache.
    pub(crate) fn prefetch_bits(&self, ids: &[FolioId]) {
        self.bits.prefetch(ids);
    }

    /// Calls `visit` with id and word of each accessed page, in id order. `visit` returns the new
    /// word, which also clears the accessed bit, or `None` to change nothing. The new word must not
    /// change whether the page is present.
    pub(crate) fn for_accessed(&mut self, mut visit: impl FnMut(FolioId, Word) -> Option<Word>) {
        for block in 0..self.bits.blocks() {
            let (mut accessed, mut to_clear) = (self.bits.accessed_in(block), 0);
            while accessed != 0 {
                let bit = accessed & accessed.wrapping_neg();
                accessed ^= bit;
                let id = PageTable::id(block, bit);
                if let Some(word) = visit(id, Word::from_raw(self.words[id.index()])) {
                    debug_assert!(word.is_present());
                    self.words[id.index()] = word.raw();
                    to_clear |= bit;
                }
            }
            if to_clear != 0 {
                self.bits.clear_in(block, to_clear);
            }
        }
    }

    /// Returns all ids with their words, in id order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FolioId, Word)> + '_ {
        (0u32..)
            .zip(&self.words)
            .map(|(id, &raw)| (FolioId(id), Word::from_raw(raw)))
    }

    /// Returns the number of ids in `state`; reads every word.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.iter()
            .filter(|(_, word)| word.state() == state)
            .count()
    }

    /// Asserts that words and accessed bits agree on which pages are present.
    pub(crate) fn check(&self) {
        let (present, stray) = self.bits.present_and_stray();
        assert!(!stray, "a page is accessed and not present");
        let mut words = 0;
        for (id, _) in self.iter().filter(|(_, word)| word.is_present()) {
            assert!(self.bits.is_present(id), "{id:?} lacks its present bit");
            words += 1;
        }
        assert_eq!(present, words, "present bits of pages that are not");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_growth_is_exact_and_holes_are_absent() {
        let mut table = FolioTable::default();
        table.ensure(1000);
        assert_eq!(table.footprint(), 4256);
        assert_eq!(table.get(FolioId(999)).state(), State::Absent);
        assert_eq!(table.get(FolioId(5_000_000)).state(), State::Absent);
        assert_eq!(table.count(State::Absent), 1000);
    }

    #[test]
    fn a_table_ends_behind_its_last_page() {
        let mut table = FolioTable::default();
        table.ensure(100_000);
        table.set(FolioId(5000), Word::default().into_state(State::Listed));
        table.shrink(6000);
        assert_eq!((table.len(), table.footprint() < 30_000), (6000, true));
        table.shrink(10);
        assert_eq!(table.len(), 5001, "a page is there");
        assert!(table.touch(FolioId(5000)) && !table.touch(FolioId(5001)));
        table.set(FolioId(5000), Word::default());
        table.shrink(10);
        table.ensure(6000);
        assert!(!table.touch(FolioId(5000)), "its bits were dropped with it");
        table.check();
    }

    #[test]
    fn touching_an_absent_page_does_nothing() {
        let mut table = FolioTable::default();
        table.ensure(1);
        assert!(!table.touch(FolioId(0)) && !table.touch(FolioId(1)));
        assert_eq!(table.get(FolioId(0)), Word::default());
    }

    fn one_present() -> FolioTable {
        let mut table = FolioTable::default();
        table.ensure(100);
        table.set(FolioId(7), Word::default().into_state(State::Listed));
        table.check();
        table
    }

    /// The canaries below corrupt a table in one way that `check` must find.
    #[test]
    #[should_panic(expected = "FolioId(7) lacks its present bit")]
    fn canary_a_present_bit_is_lost() {
        let mut table = one_present();
        table.bits.set_present(FolioId(7), false);
        table.check();
    }

    #[test]
    #[should_panic(expected = "present bits of pages that are not")]
    fn canary_a_present_bit_too_many() {
        let mut table = one_present();
        table.bits.set_present(FolioId(8), true);
        table.check();
    }

    #[test]
    #[should_panic(expected = "accessed and not present")]
    fn canary_an_absent_page_is_accessed() {
        let mut table = one_present();
        table.bits.plant_accessed(FolioId(9));
        table.check();
    }
}
