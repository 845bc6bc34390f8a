//! Converts page numbers to dense ids: 0, 1, 2..., in the order of the first references.
//!
//! Page numbers usually come in clusters. So a directory has a table for each chunk of 512
//! neighbouring numbers, with their ids. Scattered numbers (hashes of names) would waste such
//! tables: if there are fewer than 16 ids in a chunk on average, all ids move to one hash table,
//! and stay there.
//!
//! Invariant: ids depend only on the references.

mod flat;

use flat::Flat;

/// Number of pages in a chunk.
const CHUNK: usize = 512;
const CHUNK_BITS: u32 = CHUNK.trailing_zeros();
/// With fewer ids in a chunk on average, page numbers count as scattered.
const FILLED: usize = 16;
/// Number of chunks (32 MiB of tables) below which the average is not used: with random references,
/// nearly every page opens a new chunk at first.
const FEW: usize = 1 << 14;
const NONE: u32 = u32::MAX;

/// The ids of all pages. Takes 12 to 16 bytes for each page if page numbers are neighbours, and at
/// most about 150 bytes otherwise (or 32 MiB in all).
#[derive(Clone, Debug, Default)]
pub struct Dense {
    /// The index of each chunk in `chunks`; if `scattered`, the id of each page.
    table: Flat,
    chunks: Vec<[u32; CHUNK]>,
    scattered: bool,
    /// The page number of each id, until the ids are moved.
    pages: Vec<u64>,
    len: u32,
}

impl Dense {
    /// Maximum number of pages: ids have 32 bits, and some values have special meanings.
    pub const MAX: u32 = u32::MAX - 2;

    /// Returns the number of different pages so far.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether there was no page so far.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the maximum number of bytes by which the tables grow at once during `more` new
    /// pages.
    #[must_use]
    pub fn growth_bytes(&self, more: usize) -> u64 {
        self.table.growth_bytes(more)
    }

    /// Returns the id of `page`; a new one if the page is new.
    ///
    /// # Panics
    /// If there are more than [`Self::MAX`] pages.
    #[inline]
    pub fn id(&mut self, page: u64) -> u32 {
        if self.scattered {
            let id = self.table.get_or_insert(page, self.len);
            self.len = self.len.max(id + 1);
            assert!(self.len <= Self::MAX, "more than 2^32 pages");
            return id;
        }
        let next = u32::try_from(self.chunks.len()).unwrap_or(NONE);
        let chunk = self.table.get_or_insert(page >> CHUNK_BITS, next);
        if chunk == next {
            return self.first_of_chunk(page);
        }
        #[expect(clippy::cast_possible_truncation, reason = "an index below 512")]
        let entry = &mut self.chunks[chunk as usize][page as usize % CHUNK];
        if *entry == NONE {
            *entry = self.len;
            return self.count(page);
        }
        *entry
    }

    #[cold]
    fn count(&mut self, page: u64) -> u32 {
        assert!(self.len < Self::MAX, "more than 2^32 pages");
        self.pages.push(page);
        self.len += 1;
        self.len - 1
    }

    #[cold]
    fn first_of_chunk(&mut self, page: u64) -> u32 {
        let mut chunk = [NONE; CHUNK];
        #[expect(clippy::cast_possible_truncation, reason = "an index below 512")]
        let at = page as usize % CHUNK;
        chunk[at] = self.len;
        self.chunks.push(chunk);
        let id = self.count(page);
        if self.chunks.len() > FEW && self.chunks.len() * FILLED > self.pages.len() {
            self.scatter();
        }
        id
    }

    fn scatter(&mut self) {
        self.table = Flat::default();
        for (id, &page) in (0..).zip(&self.pages) {
            self.table.get_or_insert(page, id);
        }
        (self.chunks, self.pages) = (Vec::new(), Vec::new());
        self.scattered = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn hold_against_a_map(pages: impl Iterator<Item = u64>) -> Dense {
        let (mut dense, mut naive) = (Dense::default(), HashMap::new());
        for page in pages {
            let next = u32::try_from(naive.len()).expect("few");
            let id = *naive.entry(page).or_insert(next);
            assert_eq!(dense.id(page), id, "page {page}");
        }
        assert_eq!(dense.len() as usize, naive.len());
        dense
    }

    fn mixed(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    #[test]
    fn neighbours_stay_in_chunks() {
        let edges = [0, u64::MAX, 511, 512, u64::MAX - 512];
        let pages = (0..300_000).map(|n| mixed(n) >> 46).chain(edges);
        assert!(!hold_against_a_map(pages).scattered);
    }

    #[test]
    fn scattered_pages_move_and_keep_their_ids() {
        // First neighbouring numbers, then scattered numbers, each twice.
        let pages = (0..2_000).chain((0..100_000).map(|n| mixed(n / 2)));
        let dense = hold_against_a_map(pages);
        assert!(dense.scattered && dense.chunks.is_empty());
    }
}
