//! Three bits for each page of an address space: present, paged out, accessed.
//!
//! Invariant: a present page is not paged out, and an accessed page is present. After
//! [`Pages::prune`] no chunk has only clear bits.

use std::collections::BTreeMap;

/// Number of pages in a chunk: as many as one last-level page table of x86-64 maps.
pub const CHUNK_PAGES: u64 = 512;
/// Number of pages whose bits are in one word.
pub(crate) const WORD_PAGES: u64 = 64;
/// Number of words that have one bit for each page of a chunk.
pub(crate) const WORDS: usize = (CHUNK_PAGES / WORD_PAGES) as usize;

/// The bits of one kind (present, paged out or accessed) for all pages of a chunk.
pub(crate) type Plane = [u64; WORDS];

/// The bits of a chunk: of each kind, one bit for each of the 512 pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planes {
    /// The page is present in memory.
    pub present: [u64; WORDS],
    /// The page is in swap, or was dropped from memory in another way that the program did not
    /// request.
    pub out: [u64; WORDS],
    /// The page was accessed between the last two scans.
    pub accessed: [u64; WORDS],
}

impl Planes {
    /// Number of kinds of bits.
    pub(crate) const KINDS: usize = 3;

    /// The bits of one kind: 0 present, 1 paged out, 2 accessed.
    pub(crate) const fn plane(&self, kind: usize) -> &Plane {
        match kind {
            0 => &self.present,
            1 => &self.out,
            _ => &self.accessed,
        }
    }

    /// The bits of one kind, to be changed.
    pub(crate) const fn plane_mut(&mut self, kind: usize) -> &mut Plane {
        match kind {
            0 => &mut self.present,
            1 => &mut self.out,
            _ => &mut self.accessed,
        }
    }

    /// Returns whether all bits are clear.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Planes::default()
    }

    /// Returns whether the bits fit together: no page is both present and paged out, and no page is
    /// accessed without being present.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let words = self.present.iter().zip(&self.out).zip(&self.accessed);
        words
            .map(|((present, out), accessed)| present & out | accessed & !present)
            .all(|wrong| wrong == 0)
    }
}

/// The bits of an address space's pages, by number of the chunk (page number / [`CHUNK_PAGES`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(pub(crate) BTreeMap<u64, Planes>);

impl Pages {
    /// Returns the bits of the chunk `number`; all are clear if it is not stored.
    #[must_use]
    pub fn chunk(&self, number: u64) -> Planes {
        self.0.get(&number).copied().unwrap_or_default()
    }

    /// Returns the bits of the chunk `number` to be changed; stores the chunk if it is not stored
    /// yet.
    pub fn chunk_mut(&mut self, number: u64) -> &mut Planes {
        self.0.entry(number).or_default()
    }

    /// Returns the stored chunks with numbers in this range, ascending: number, bits.
    pub fn chunks(&self, numbers: std::ops::Range<u64>) -> impl Iterator<Item = (u64, &Planes)> {
        let found = (numbers.start < numbers.end).then(|| self.0.range(numbers));
        found
            .into_iter()
            .flatten()
            .map(|(number, planes)| (*number, planes))
    }

    /// Removes chunks in which all bits are clear.
    pub fn prune(&mut self) {
        self.0.retain(|_, planes| !planes.is_empty());
    }

    /// Returns the number of stored chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no chunk is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
