//! Chooses the order in which a replay accesses the pages that one scan found accessed. The real
//! order is unknown, so a seeded generator chooses one, which is the same at each replay.
//!
//! Invariant: the order depends only on the seed and the scan's number. All orders of the units are
//! equally likely.

use crate::unit::Unit;

/// A random number generator (`SplitMix64`, Steele and others 2014).
struct Chance(u64);

impl Chance {
    /// Returns a random number of 64 bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..limit`. All are equally likely, up to the rounding of 64 bits.
    fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.next()) * limit as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }
}

/// Puts the units of scan number `scan` into a random order.
pub(crate) fn shuffle(units: &mut [Unit], seed: u64, scan: u64) {
    let mut chance = Chance(seed ^ Chance(scan).next());
    for at in (1..units.len()).rev() {
        units.swap(at, chance.below(at + 1));
    }
}
