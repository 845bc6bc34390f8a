//! Watermarks of a node's free memory. spec: reclaim-control.md 5.1.

use crate::units::Pages;

/// Free pages at which something happens. Invariant: min <= low <= high <= promo (I6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it allocations reclaim on their own time.
    pub min: Pages,
    /// Below it the background reclaimer is woken.
    pub low: Pages,
    /// At it the background reclaimer stops.
    pub high: Pages,
    /// The same where colder memory takes demoted pages.
    pub promo: Pages,
}

/// The default of `watermark_scale_factor`, in ten-thousandths.
pub const WATERMARK_SCALE_FACTOR: u64 = 10;

impl Watermarks {
    /// Watermarks of a zone of `managed` pages whose share of the reserve is `min`.
    #[must_use]
    pub fn new(managed: Pages, min: Pages, scale_factor: u64) -> Self {
        let gap = (min.0 / 4).max(managed.0.saturating_mul(scale_factor) / 10_000);
        let above = |n: u64| Pages(min.0 + n * gap);
        Self {
            min,
            low: above(1),
            high: above(2),
            promo: above(3),
        }
    }
}

/// min_free_kbytes for so much low memory.
#[must_use]
pub fn min_free_kbytes(lowmem_kb: u64) -> u64 {
    (lowmem_kb.saturating_mul(16)).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reclaim-control.md 11, test 9.
    #[test]
    fn watermarks_and_reserve() {
        let marks = Watermarks::new(Pages(1_000_000), Pages(4000), WATERMARK_SCALE_FACTOR);
        let expect = [4000, 5000, 6000, 7000].map(Pages);
        assert_eq!([marks.min, marks.low, marks.high, marks.promo], expect);
        assert_eq!(min_free_kbytes(16 << 20), 16_384);
        assert_eq!(
            (min_free_kbytes(1), min_free_kbytes(u64::MAX)),
            (128, 262_144)
        );
    }
}
