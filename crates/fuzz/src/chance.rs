//! Numbers by chance.
//!
//! Invariant: the same seed gives the same numbers (`SplitMix64`, Steele and others 2014).

/// A generator.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.next()) * limit.max(1) as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// True once in so many.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// One of some things.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T: ?Sized>(&mut self, things: &[&'a T]) -> &'a T {
        things[self.below(things.len())]
    }

    /// A number of any size: as many small ones as large ones, and those beside powers of two.
    pub fn number(&mut self) -> u64 {
        let edge = 1_u64 << self.below(64);
        match self.below(4) {
            0 => self.below(10) as u64,
            1 => edge,
            2 => edge.wrapping_sub(1),
            _ => self.next() >> self.below(64),
        }
    }

    /// Up to `most` bytes.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
