//! Bloom filters of the page-table ranges that are worth a walk: one is read by the present walk,
//! while the other is filled for the next.
//! spec: lru-gen.md 1 and 5.2.
//!
//! An item is a range of page table that the embedder walks as a whole. A filter finds every item
//! that was added. It also finds some items that were not added: about 1 in 5 once it has 10,000
//! items.

use alloc::boxed::Box;
use alloc::vec;

/// Bits of one filter, as a power of two.
pub const BLOOM_FILTER_SHIFT: u32 = 15;
const WORDS: usize = 1 << (BLOOM_FILTER_SHIFT - 6);
const MASK: u64 = (1 << BLOOM_FILTER_SHIFT) - 1;

/// The pair of filters, by generation modulo 2. A filter that was never filled finds every item.
#[derive(Debug, Default)]
pub struct BloomFilters([Option<Box<[u64]>>; 2]);

/// Whether a walked range is dense enough to be walked again: at least one page in eight is young.
#[must_use]
pub const fn is_dense(young: u64, total: u64) -> bool {
    young * 8 >= total
}

/// Returns the indexes of an item's two bits in a filter: parts of one 64-bit hash.
const fn keys(item: u64) -> [u64; 2] {
    let x = (item ^ item >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    [x & MASK, x >> 40 & MASK]
}

const fn word_and_mask(key: u64) -> (usize, u64) {
    ((key >> 6) as usize & (WORDS - 1), 1 << (key & 63))
}

impl BloomFilters {
    /// Whether the walk of generation `seq` must read `item`.
    #[must_use]
    pub fn test(&self, seq: u64, item: u64) -> bool {
        self.0[(seq % 2) as usize].as_ref().is_none_or(|filter| {
            let set = |key| {
                let (word, bit) = word_and_mask(key);
                filter[word] & bit != 0
            };
            keys(item).into_iter().all(set)
        })
    }

    /// Records that `item` was dense in the walk of `seq`: the next walk must read it, too.
    pub fn add_for_next(&mut self, seq: u64, item: u64) {
        let filter = &mut self.0[((seq + 1) % 2) as usize];
        let filter = filter.get_or_insert_with(|| vec![0; WORDS].into_boxed_slice());
        for (word, bit) in keys(item).map(word_and_mask) {
            filter[word] |= bit;
        }
    }

    /// Records that `item` was found dense outside of a walk: the walk of `seq`, the youngest
    /// generation, must read it, too. A filter that was never filled stays as it is, because it
    /// finds every item.
    pub fn add(&mut self, seq: u64, item: u64) {
        if let Some(filter) = &mut self.0[(seq % 2) as usize] {
            for (word, bit) in keys(item).map(word_and_mask) {
                filter[word] |= bit;
            }
        }
    }

    /// Begins the walk of `seq`: empties the filter that this walk fills for the next one.
    pub fn begin(&mut self, seq: u64) {
        self.0[((seq + 1) % 2) as usize] = Some(vec![0; WORDS].into_boxed_slice());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missed_and_the_filters_take_turns() {
        let mut filters = BloomFilters::default();
        assert!(filters.test(3, 7), "the first walk reads every range");
        filters.begin(3);
        (0..1000).for_each(|item| filters.add_for_next(3, item * 512));
        assert!((0..1000).all(|item| filters.test(4, item * 512)));
        filters.begin(4);
        assert!((0..1000).all(|item| filters.test(4, item * 512)), "is read");
        assert!(
            (0..1000).all(|item| !filters.test(5, item * 512)),
            "is empty"
        );
    }

    #[test]
    fn a_range_added_between_walks_is_found_by_the_next() {
        let mut filters = BloomFilters::default();
        filters.add(3, 7);
        assert!(filters.test(3, 8), "a filter that was never filled");
        filters.begin(3);
        filters.add(4, 7);
        assert!(filters.test(4, 7) && !filters.test(4, 8));
    }

    #[test]
    fn false_positives_are_as_many_as_two_keys_give() {
        for (items, low, high) in [(10_000, 15, 27), (20_000, 42, 58)] {
            let mut filters = BloomFilters::default();
            filters.begin(0);
            (0..items).for_each(|item| filters.add_for_next(0, item));
            let others = 1_000_000..1_010_000u64;
            let found = others.filter(|&item| filters.test(1, item)).count();
            assert!((low..=high).contains(&(found / 100)), "{items}: {found}");
        }
    }

    #[test]
    fn density_is_one_in_eight() {
        assert!(is_dense(64, 512) && !is_dense(63, 512));
    }
}
