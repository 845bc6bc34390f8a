//! How shadows of the classic LRU store the eviction clock, and what a shadow says at a refault.
//! spec: workingset.md 2, 3, 5.
//!
//! A stamp has the low bits of the clock. If the machine has more pages than a stamp can
//! distinguish, the lowest `bucket_order` bits of the clock are dropped. Distances are computed
//! modulo the range of a stamp (invariant I3), so the distance of a shadow older than one wrap is
//! wrong; that is accepted.

use crate::units::Pages;

/// The content of a shadow entry, evaluated when its page refaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refault {
    /// Whether the page was evicted recently, so that the refault counts as one of the working set.
    pub recent: bool,
    /// Whether the page belonged to the working set when it was evicted.
    pub workingset: bool,
    /// The tier from which the page was evicted; 0 for the classic LRU.
    pub tier: usize,
}

/// How values of the eviction clock are stored in shadows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionClock {
    bits: u32,
    bucket_order: u32,
}

impl EvictionClock {
    /// Creates a clock with stamps of `bits` bits, for a machine of `total` pages.
    #[must_use]
    pub const fn new(bits: u32, total: Pages) -> Self {
        let fls = u64::BITS - total.0.saturating_sub(1).leading_zeros();
        Self {
            bits,
            bucket_order: fls.saturating_sub(bits),
        }
    }

    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Returns the stamp of the clock value `age`.
    #[must_use]
    pub const fn stamp(self, age: u64) -> u64 {
        age >> self.bucket_order & self.mask()
    }

    /// Returns the refault distance: the clock's advance from `stamp` to `now`, in pages.
    #[must_use]
    pub const fn distance(self, now: u64, stamp: u64) -> u64 {
        let mask = (self.mask() << self.bucket_order) | ((1 << self.bucket_order) - 1);
        now.wrapping_sub(stamp << self.bucket_order) & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A distance is right even if the clock has wrapped once.
    /// spec: workingset.md 12, test 5.
    #[test]
    fn distance_wraps() {
        let clock = EvictionClock::new(8, Pages(100));
        assert_eq!(clock.distance(5, 250), 11);
        assert_eq!(clock.distance(256 + 5, clock.stamp(250)), 11);
    }

    /// If stamps drop 3 bits of the clock, a distance is wrong by less than 8.
    /// spec: workingset.md 12, test 6.
    #[test]
    fn coarse_clock_errs_by_less_than_a_bucket() {
        let clock = EvictionClock::new(8, Pages(2048));
        assert_eq!(
            clock,
            EvictionClock {
                bits: 8,
                bucket_order: 3
            }
        );
        for evicted in 0..3000 {
            for true_distance in [0, 1, 7, 8, 100, 1999] {
                let distance = clock.distance(evicted + true_distance, clock.stamp(evicted));
                assert!(
                    distance.abs_diff(true_distance) < 8,
                    "{evicted} + {true_distance}: {distance}"
                );
            }
        }
    }

    /// After an eviction, 40 further evictions and 10 activations the distance is 51.
    /// spec: workingset.md 12, test 4.
    #[test]
    fn clock_advances_by_evictions_and_activations() {
        let clock = EvictionClock::new(20, Pages(1 << 20));
        assert_eq!(clock.distance(1000 + 1 + 40 + 10, clock.stamp(1000)), 51);
    }
}
