//! The eviction clock of the classic LRU, as its shadows store it.
//! spec: workingset.md 2, 3, 5.
//!
//! A stamp holds the low bits of the clock. When the machine has more pages than the stamp can
//! distinguish, the lowest `bucket_order` bits of the clock are dropped. Distances are taken modulo
//! the stamp's range (invariant I3): a shadow older than one wrap may be misjudged, and that is
//! accepted.

use crate::units::Pages;

/// What a shadow entry says when its page refaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refault {
    /// Whether the page was evicted recently enough to count.
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

    /// workingset.md 12, test 5.
    #[test]
    fn distance_wraps() {
        let clock = EvictionClock::new(8, Pages(100));
        assert_eq!(clock.distance(5, 250), 11);
        assert_eq!(clock.distance(256 + 5, clock.stamp(250)), 11);
    }

    /// workingset.md 12, test 6.
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
                let got = clock.distance(evicted + true_distance, clock.stamp(evicted));
                assert!(
                    got.abs_diff(true_distance) < 8,
                    "{evicted} + {true_distance}: {got}"
                );
            }
        }
    }

    /// workingset.md 12, test 4.
    #[test]
    fn clock_advances_by_evictions_and_activations() {
        let clock = EvictionClock::new(20, Pages(1 << 20));
        assert_eq!(clock.distance(1000 + 1 + 40 + 10, clock.stamp(1000)), 51);
    }
}
