//! Random numbers.
//!
//! Invariant: the same seed produces the same numbers (`SplitMix64`, Steele and others 2014).

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Makes a generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a random number of 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..limit`; a limit of 0 counts as 1.
    pub fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.next()) * limit.max(1) as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// Returns true in one of `many` calls on average.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Returns a random member of `things`.
    ///
    /// # Panics
    /// If `things` is empty.
    pub fn pick<'a, T: ?Sized>(&mut self, things: &[&'a T]) -> &'a T {
        things[self.below(things.len())]
    }

    /// Returns a number of 0 to 64 bits. All lengths in bits are about equally likely, and powers
    /// of two and their predecessors are frequent.
    pub fn number(&mut self) -> u64 {
        let edge = 1_u64 << self.below(64);
        match self.below(4) {
            0 => self.below(10) as u64,
            1 => edge,
            2 => edge.wrapping_sub(1),
            _ => self.next() >> self.below(64),
        }
    }

    /// Returns random bytes, of a random length from 0 to `most`.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
