//! In which order the pages of one look were accessed: nobody knows, so chance says, the same each time.
//!
//! Invariant: depends on seed and look alone; each order of units is as likely as any other.

use crate::unit::Unit;

/// A generator of numbers (`SplitMix64`, Steele and others 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`, evenly but for what 64 bits cannot divide.
    fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.next()) * limit as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }
}

/// Puts units into the order of this look.
pub(crate) fn shuffle(units: &mut [Unit], seed: u64, look: u64) {
    let mut chance = Chance(seed ^ Chance(look).next());
    for at in (1..units.len()).rev() {
        units.swap(at, chance.below(at + 1));
    }
}
