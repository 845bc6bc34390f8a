//! Folios and their table.
//!
//! A folio is named by a dense [`FolioId`] that the embedder chooses (the pager: chunk * 512 + page
//! in chunk). A lruvec owns the table of its folios: 4 bytes an id, holes included. Folios are of
//! order 0 here; `nr_pages` is where larger ones would come in.
//!
//! Invariant: the table only grows; an id beyond its end behaves as [`State::Absent`] and cannot
//! be inserted before [`FolioTable::ensure`].

use crate::word::{Flag, State, Word};
use alloc::vec::Vec;

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

/// The state words of all folios of one lruvec.
#[derive(Debug, Default)]
pub struct FolioTable {
    words: Vec<u32>,
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
        self.words.capacity() * 4
    }

    /// Makes ids below `len` valid. Growing the table in one step costs exactly 4 bytes an id;
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
    }

    /// The state word; `Absent` beyond the end.
    #[must_use]
    #[inline]
    pub fn get(&self, id: FolioId) -> Word {
        self.words
            .get(id.index())
            .map_or(Word::default(), |&raw| Word::from_raw(raw))
    }

    #[inline]
    pub(crate) fn set(&mut self, id: FolioId, word: Word) {
        self.words[id.index()] = word.raw();
    }

    /// The hardware's part in a simulation: sets the accessed bit. False when the page is out.
    #[inline]
    pub fn touch(&mut self, id: FolioId) -> bool {
        let Some(raw) = self.words.get_mut(id.index()) else {
            return false;
        };
        let word = Word::from_raw(*raw);
        if word.is_present() {
            *raw = word.with(Flag::Accessed, true).raw();
        }
        word.is_present()
    }

    /// All ids with their words, in id order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FolioId, Word)> + '_ {
        (0u32..)
            .zip(&self.words)
            .map(|(id, &raw)| (FolioId(id), Word::from_raw(raw)))
    }

    /// The words themselves, for the walks that visit all of them.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    /// Counts ids in `state`, by looking at all.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.iter()
            .filter(|(_, word)| word.state() == state)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_growth_is_exact_and_holes_are_absent() {
        let mut table = FolioTable::default();
        table.ensure(1000);
        assert_eq!(table.footprint(), 4000);
        assert_eq!(table.get(FolioId(999)).state(), State::Absent);
        assert_eq!(table.get(FolioId(5_000_000)).state(), State::Absent);
        assert_eq!(table.count(State::Absent), 1000);
    }

    #[test]
    fn touching_an_absent_page_does_nothing() {
        let mut table = FolioTable::default();
        table.ensure(1);
        assert!(!table.touch(FolioId(0)) && !table.touch(FolioId(1)));
        assert_eq!(table.get(FolioId(0)), Word::default());
    }
}
