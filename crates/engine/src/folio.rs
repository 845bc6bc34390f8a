//! Folios and their table.
//!
//! A folio is named by a dense [`FolioId`] that the embedder chooses (the pager: chunk * 512 + page
//! in chunk). A lruvec owns the table of its folios: 4 bytes an id, holes included. Folios are of
//! order 0 here; `nr_pages` is where larger ones would come in.
//!
//! Invariants: an id beyond the table's end behaves as [`State::Absent`] and cannot be inserted before
//! [`FolioTable::ensure`]; the table ends no earlier than the last id whose word says anything; the
//! accessed bits (page_table.rs) know of exactly the pages that are present.

mod page_table;

use crate::word::{Flag, State, Word};
use alloc::vec::Vec;
use core::ops::Range;
use page_table::PageTable;

/// Index of a folio within its lruvec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolioId(pub u32);

impl FolioId {
    /// Ring entries have 29 bits for the id: 2 TiB of base pages a lruvec.
    pub const BITS: u32 = 29;

    /// The table index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether what maps a page has recency (`vma_has_recency`), asked at each look at its accessed bit.
/// spec: reclaim-control.md 6.1.
pub(crate) type Recency<'a> = &'a dyn Fn(FolioId) -> bool;

/// The two kinds of pages reclaim tells apart. spec: lru-gen.md 1 (lazyfree pages are type file).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FolioType {
    /// Swap-backed.
    Anon = 0,
    /// Has another home, or none that matters.
    File = 1,
}

impl FolioType {
    /// Both types, in the kernel's index order.
    pub const ALL: [Self; 2] = [Self::Anon, Self::File];

    /// Array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Anon => Self::File,
            Self::File => Self::Anon,
        }
    }
}

impl Word {
    /// The type of a present page.
    #[must_use]
    pub const fn folio_type(self) -> FolioType {
        if self.has(Flag::File) {
            FolioType::File
        } else {
            FolioType::Anon
        }
    }

    /// The type that a page had when it left.
    pub(crate) const fn shadow_type(self) -> FolioType {
        if self.shadow_is_file() {
            FolioType::File
        } else {
            FolioType::Anon
        }
    }
}

/// Pages whose accessed bits are read ahead of touching them: as many lines as a first-level cache
/// holds with room to spare.
const TOUCHES_AHEAD: usize = 512;

/// The state words and accessed bits of all folios of one lruvec.
#[derive(Debug, Default)]
pub struct FolioTable {
    words: Vec<u32>,
    bits: PageTable,
}

impl FolioTable {
    /// Number of ids, holes included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.words.len()
    }

    /// True when no id exists.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Bytes held.
    #[must_use]
    pub const fn footprint(&self) -> usize {
        self.words.capacity() * 4 + self.bits.footprint()
    }

    /// Makes ids below `len` valid. Growing the table in one step costs exactly 4.25 bytes an id;
    /// small steps leave up to 1/64 spare, so that growth stays linear.
    ///
    /// # Panics
    /// When `len` exceeds what a ring entry can name (2^29).
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

    /// Ends the table at `len`, or behind the last id whose word says anything, and gives the memory back.
    pub(crate) fn shrink(&mut self, len: usize) {
        let used = self.words.iter().rposition(|&raw| raw != 0);
        let len = len.max(used.map_or(0, |last| last + 1));
        if len < self.words.len() {
            self.words.truncate(len);
            self.words.shrink_to(len + len / 64);
            self.bits.shrink(len, self.words.capacity());
        }
    }

    /// The state word; `Absent` beyond the end.
    #[must_use]
    #[inline]
    pub fn get(&self, id: FolioId) -> Word {
        self.words
            .get(id.index())
            .map_or(Word::default(), |&raw| Word::from_raw(raw))
    }

    /// Stores a word. When the page comes or goes with it, its accessed bit is clear.
    #[inline]
    pub(crate) fn set(&mut self, id: FolioId, word: Word) {
        let slot = &mut self.words[id.index()];
        let was = Word::from_raw(core::mem::replace(slot, word.raw()));
        if was.is_present() != word.is_present() {
            self.bits.set_present(id, word.is_present());
        }
    }

    /// The pages of `run` become absent, all of them within the table.
    pub(crate) fn forget(&mut self, run: Range<u32>) {
        let run = run.start as usize..run.end as usize;
        for raw in &mut self.words[run.clone()] {
            *raw = Word::from_raw(*raw).into_state(State::Absent).raw();
        }
        self.bits.forget(run);
    }

    /// The hardware's part in a simulation: sets the accessed bit. False when the page is out.
    #[inline]
    pub fn touch(&mut self, id: FolioId) -> bool {
        self.bits.touch(id)
    }

    /// [`Self::touch`] of many pages; those that are out are appended to `missing`, in order and as
    /// often as they were touched. Faster than one by one: nothing waits for memory twice, and there
    /// is no branch to guess wrong.
    pub fn touch_all(&mut self, ids: &[FolioId], missing: &mut Vec<FolioId>) {
        let mut end = missing.len();
        missing.resize(end + ids.len(), FolioId(0));
        for ids in ids.chunks(TOUCHES_AHEAD) {
            self.bits.bring_near(ids);
            for &id in ids {
                missing[end] = id;
                end += usize::from(!self.bits.touch(id));
            }
        }
        missing.truncate(end);
    }

    /// True when the page was touched since its accessed bit was last taken.
    #[must_use]
    pub fn is_accessed(&self, id: FolioId) -> bool {
        self.bits.is_accessed(id)
    }

    /// Clears the accessed bit and says whether it was set.
    pub(crate) fn take_accessed(&mut self, id: FolioId) -> bool {
        self.bits.take_accessed(id)
    }

    /// Reads the words of `ids`, all at once as far as the processor can, so that they are near when
    /// they are needed one by one.
    pub(crate) fn bring_near(&self, ids: impl Iterator<Item = FolioId>) {
        let all = ids.fold(0, |all, id| all ^ self.get(id).raw());
        core::hint::black_box(all);
    }

    /// The same for the accessed bits.
    pub(crate) fn bring_bits_near(&self, ids: &[FolioId]) {
        self.bits.bring_near(ids);
    }

    /// Visits the accessed pages in id order: `visit` is given page and word and returns the new word, or
    /// `None` to leave the page and its bit as they are. It must not change whether it is present.
    pub(crate) fn for_accessed(&mut self, mut visit: impl FnMut(FolioId, Word) -> Option<Word>) {
        for block in 0..self.bits.blocks() {
            let (mut rest, mut taken) = (self.bits.accessed_in(block), 0);
            while rest != 0 {
                let bit = rest & rest.wrapping_neg();
                rest ^= bit;
                let id = PageTable::id(block, bit);
                if let Some(word) = visit(id, Word::from_raw(self.words[id.index()])) {
                    debug_assert!(word.is_present());
                    self.words[id.index()] = word.raw();
                    taken |= bit;
                }
            }
            if taken != 0 {
                self.bits.clear_in(block, taken);
            }
        }
    }

    /// All ids with their words, in id order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FolioId, Word)> + '_ {
        (0u32..)
            .zip(&self.words)
            .map(|(id, &raw)| (FolioId(id), Word::from_raw(raw)))
    }

    /// Counts ids in `state`, by looking at all.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.iter()
            .filter(|(_, word)| word.state() == state)
            .count()
    }

    /// Asserts that words and accessed bits speak of the same pages.
    pub(crate) fn check(&self) {
        let (present, stray) = self.bits.tally();
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
        assert!(!table.touch(FolioId(5000)), "its bits ended with it");
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

    /// Canaries: each plants one bug that `check` must find.
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
