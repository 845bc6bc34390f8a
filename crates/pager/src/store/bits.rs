//! One bit for each granule of a slab.

use std::ops::Range;

/// Granules of a slab.
pub(super) const UNITS: usize = 2048;
const WORDS: usize = UNITS / 64;

/// A set of granules of one slab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bits([u64; WORDS]);

impl Bits {
    pub(super) const NONE: Bits = Bits([0; WORDS]);

    pub(super) fn get(&self, unit: usize) -> bool {
        self.0[unit / 64] >> (unit % 64) & 1 != 0
    }

    pub(super) fn set(&mut self, units: Range<usize>) {
        self.each_word(units, |word, mask| *word |= mask);
    }

    pub(super) fn clear(&mut self, units: Range<usize>) {
        self.each_word(units, |word, mask| *word &= !mask);
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first set granule from `unit` on, or [`UNITS`].
    pub(super) fn next_set(&self, unit: usize) -> usize {
        self.next(unit, |word| word)
    }

    /// The first clear granule from `unit` on, or [`UNITS`].
    pub(super) fn next_clear(&self, unit: usize) -> usize {
        self.next(unit, |word| !word)
    }

    /// Maximal runs of clear granules from `unit` on.
    pub(super) fn clear_runs(&self, unit: usize) -> impl Iterator<Item = Range<usize>> {
        let mut from = unit;
        std::iter::from_fn(move || {
            let start = self.next_clear(from);
            from = self.next_set(start);
            (start < UNITS).then_some(start..from)
        })
    }

    fn next(&self, unit: usize, view: impl Fn(u64) -> u64) -> usize {
        let mut at = unit;
        while at < UNITS {
            let word = view(self.0[at / 64]) >> (at % 64);
            if word != 0 {
                return at + word.trailing_zeros() as usize;
            }
            at = (at / 64 + 1) * 64;
        }
        UNITS
    }

    fn each_word(&mut self, units: Range<usize>, mut change: impl FnMut(&mut u64, u64)) {
        let mut at = units.start;
        while at < units.end {
            let end = units.end.min((at / 64 + 1) * 64);
            let mask = u64::MAX >> (64 - (end - at)) << (at % 64);
            change(&mut self.0[at / 64], mask);
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_complement_of_what_is_set() {
        for (a, b) in [
            (0, 1),
            (0, 2048),
            (63, 65),
            (64, 128),
            (1, 2047),
            (2047, 2048),
            (70, 200),
        ] {
            let mut bits = Bits::NONE;
            bits.set(a..b);
            assert_eq!(bits.count(), b - a);
            assert!((0..UNITS).all(|unit| bits.get(unit) == (a..b).contains(&unit)));
            let expected: Vec<_> = [0..a, b..UNITS]
                .into_iter()
                .filter(|r| !r.is_empty())
                .collect();
            assert_eq!(bits.clear_runs(0).collect::<Vec<_>>(), expected);
            bits.clear(a..b);
            assert_eq!(bits, Bits::NONE);
        }
    }
}
