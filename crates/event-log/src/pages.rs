//! The pages of an address space, three bits each: present, out, accessed.
//!
//! Invariant: what is present is not out; only what is present is accessed; a chunk of which nothing is known is not there.

use std::collections::BTreeMap;

/// Pages of a chunk: a leaf table of x86-64.
pub const CHUNK_PAGES: u64 = 512;
/// Pages of a word.
pub(crate) const WORD_PAGES: u64 = 64;
pub(crate) const WORDS: usize = (CHUNK_PAGES / WORD_PAGES) as usize;

/// The bits of one kind in a chunk.
pub(crate) type Plane = [u64; WORDS];

/// The bits of 512 pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planes {
    /// In memory.
    pub present: [u64; WORDS],
    /// In swap, or gone from memory in another way that its program did not ask for.
    pub out: [u64; WORDS],
    /// Accessed between the last two looks.
    pub accessed: [u64; WORDS],
}

impl Planes {
    /// Kinds of bits.
    pub(crate) const KINDS: usize = 3;

    pub(crate) const fn plane(&self, kind: usize) -> &Plane {
        match kind {
            0 => &self.present,
            1 => &self.out,
            _ => &self.accessed,
        }
    }

    pub(crate) const fn plane_mut(&mut self, kind: usize) -> &mut Plane {
        match kind {
            0 => &mut self.present,
            1 => &mut self.out,
            _ => &mut self.accessed,
        }
    }

    /// Whether nothing is known of these pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Planes::default()
    }

    /// Whether the invariant holds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let words = self.present.iter().zip(&self.out).zip(&self.accessed);
        words
            .map(|((present, out), accessed)| present & out | accessed & !present)
            .all(|wrong| wrong == 0)
    }
}

/// An address space's pages, by number of their chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(pub(crate) BTreeMap<u64, Planes>);

impl Pages {
    /// The bits of a chunk.
    #[must_use]
    pub fn chunk(&self, number: u64) -> Planes {
        self.0.get(&number).copied().unwrap_or_default()
    }

    /// The same, to change: they are there from now on.
    pub fn chunk_mut(&mut self, number: u64) -> &mut Planes {
        self.0.entry(number).or_default()
    }

    /// Numbers of the chunks of which anything is known in a range of such numbers, ascending.
    pub fn chunks(&self, numbers: std::ops::Range<u64>) -> impl Iterator<Item = (u64, &Planes)> {
        let found = (numbers.start < numbers.end).then(|| self.0.range(numbers));
        found
            .into_iter()
            .flatten()
            .map(|(number, planes)| (*number, planes))
    }

    /// Forgets chunks of which nothing is known.
    pub fn prune(&mut self) {
        self.0.retain(|_, planes| !planes.is_empty());
    }

    /// How many chunks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
