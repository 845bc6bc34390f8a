//! Page numbers to dense ids, in the order of their first reference.
//!
//! Page numbers come in clusters: a directory finds the table of 512 neighbours, which has the ids.
//! Numbers that are scattered (hashes of names) would fill such tables badly; when fewer than 16
//! ids share one on average, all ids move to one hash table, for good.
//!
//! Invariant: ids are 0, 1, 2...; they depend on the references alone.

mod flat;

use flat::Flat;

/// Pages of one chunk.
const CHUNK: usize = 512;
const CHUNK_BITS: u32 = CHUNK.trailing_zeros();
/// Fewer ids a chunk on average are scattered.
const FILLED: usize = 16;
/// As long as there are few chunks nothing is known: at random every other page opens one at first.
/// They are 32 MiB.
const FEW: usize = 1 << 14;
const NONE: u32 = u32::MAX;

/// The mapping: at most about 150 bytes a page (or 32 MiB in all), 12 to 16 where pages are
/// neighbours.
#[derive(Clone, Debug, Default)]
pub struct Dense {
    /// Of chunks; of pages once `scattered`.
    table: Flat,
    chunks: Vec<[u32; CHUNK]>,
    scattered: bool,
    /// By id, as long as they may have to move.
    pages: Vec<u64>,
    len: u32,
}

impl Dense {
    /// Most pages: ids have 32 bits, and some values have meanings.
    pub const MAX: u32 = u32::MAX - 2;

    /// Pages seen.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// True before the first page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Most bytes that its tables grow by at once while `more` pages come.
    #[must_use]
    pub fn growth_bytes(&self, more: usize) -> u64 {
        self.table.growth_bytes(more)
    }

    /// The id of `page`, a new one when it is seen for the first time.
    ///
    /// # Panics
    /// Beyond [`Self::MAX`] pages.
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
        // Neighbours first, then numbers from everywhere, each twice.
        let pages = (0..2_000).chain((0..100_000).map(|n| mixed(n / 2)));
        let dense = hold_against_a_map(pages);
        assert!(dense.scattered && dense.chunks.is_empty());
    }
}
