//! A set of positions that can count its members after a given position.
//!
//! There is a bit for each position. Above the bits, each byte of a word counts the members in one
//! word of bits. Above these bytes, each level has sums of 16 counts of the level below. So to
//! count the members after a position takes one masked population count, one sum of bytes, and at
//! most 16 additions for each level.
//!
//! Invariant: every count equals the number of members in its range of positions.

const FANOUT: usize = 16;
const FANOUT_BITS: usize = 4;
/// Binary logarithm of the number of positions in one count of `levels[0]`.
const BLOCK_BITS: usize = 9;

#[derive(Clone, Debug)]
pub(super) struct Ranks {
    bits: Vec<u64>,
    /// Byte `n` of element `m` is the number of members in `bits[8 * m + n]`.
    eights: Vec<u64>,
    levels: Vec<Vec<u32>>,
}

impl Ranks {
    /// Makes an empty set of positions below `capacity`, which is rounded up to a multiple of 512.
    pub(super) fn new(capacity: usize) -> Self {
        let blocks = capacity.div_ceil(1 << BLOCK_BITS).max(1);
        let mut levels = vec![vec![0; blocks]];
        let mut len = blocks;
        while len > FANOUT {
            len = len.div_ceil(FANOUT);
            levels.push(vec![0; len]);
        }
        Self {
            bits: vec![0; blocks * 8],
            eights: vec![0; blocks],
            levels,
        }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.bits.len() * 64
    }

    /// Adds a position that is not a member.
    #[inline]
    pub(super) fn insert(&mut self, at: usize) {
        let (word, mut block) = (at >> 6, at >> BLOCK_BITS);
        debug_assert!(self.bits[word] >> (at & 63) & 1 == 0);
        self.bits[word] |= 1 << (at & 63);
        self.eights[block] += 1 << ((word & 7) * 8);
        for level in &mut self.levels {
            level[block] += 1;
            block >>= FANOUT_BITS;
        }
    }

    /// Removes a member.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        let (word, mut block) = (at >> 6, at >> BLOCK_BITS);
        debug_assert!(self.bits[word] >> (at & 63) & 1 == 1);
        self.bits[word] &= !(1 << (at & 63));
        self.eights[block] -= 1 << ((word & 7) * 8);
        for level in &mut self.levels {
            level[block] -= 1;
            block >>= FANOUT_BITS;
        }
    }

    /// Returns the number of members at positions above `at`.
    #[inline]
    pub(super) fn after(&self, at: usize) -> u32 {
        let (word, mut block) = (at >> 6, at >> BLOCK_BITS);
        let mut sum = (self.bits[word] >> 1 >> (at & 63)).count_ones();
        sum += bytes_above(self.eights[block], word & 7);
        for level in &self.levels {
            let end = (block | (FANOUT - 1)) + 1;
            let end = end.min(level.len());
            sum += level[block + 1..end].iter().sum::<u32>();
            block >>= FANOUT_BITS;
        }
        sum
    }

    /// Returns for each word the number of members in all words before it.
    pub(super) fn prefixes(&self) -> Vec<u32> {
        let mut sum = 0;
        let before = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        self.bits.iter().map(before).collect()
    }

    /// Returns the number of members before `at` in the same word.
    pub(super) fn before_in_word(&self, at: usize) -> u32 {
        (self.bits[at >> 6] & ((1 << (at & 63)) - 1)).count_ones()
    }
}

/// Returns the sum of the bytes of `word` above byte `n`; each byte is at most 64.
#[inline]
const fn bytes_above(word: u64, n: usize) -> u32 {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    let above = word >> 8 >> (n * 8);
    let pairs = (above & LOW) + (above >> 8 & LOW);
    (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranks_are_those_of_a_sorted_set(
            capacity in 1usize..40_000,
            flips in prop::collection::vec(any::<prop::sample::Index>(), 1..300),
        ) {
            let (mut ranks, mut naive) = (Ranks::new(capacity), BTreeSet::new());
            for flip in &flips {
                let at = flip.index(capacity);
                if naive.remove(&at) {
                    ranks.remove(at);
                } else {
                    naive.insert(at);
                    ranks.insert(at);
                }
                let after = naive.range(at + 1..).count();
                prop_assert_eq!(ranks.after(at) as usize, after);
            }
        }
    }

    #[test]
    fn full_words_do_not_carry_into_each_other() {
        let mut ranks = Ranks::new(1 << 14);
        (0..1 << 14).for_each(|at| ranks.insert(at));
        for at in [0, 63, 64, 511, 512, 8191, 8192, (1 << 14) - 1] {
            assert_eq!(ranks.after(at) as usize, (1 << 14) - 1 - at);
        }
    }
}
