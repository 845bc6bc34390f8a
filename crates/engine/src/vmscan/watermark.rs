//! Watermarks: numbers of free pages of a memory node by which the kernel starts and stops reclaim.
//! spec: reclaim-control.md 5.1.

use crate::units::Pages;

/// Watermarks of free memory, in pages. Invariant: min <= low <= high <= promo (I6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// With fewer free pages, a task that allocates must reclaim (direct reclaim).
    pub min: Pages,
    /// With fewer free pages, the background reclaimer (kswapd) is woken.
    pub low: Pages,
    /// With this many free pages, the background reclaimer stops.
    pub high: Pages,
    /// With this many free pages, the background reclaimer stops on a node that demotes pages to
    /// slower memory.
    pub promo: Pages,
}

/// The kernel's default of `watermark_scale_factor`, in ten-thousandths of the node's memory.
pub const WATERMARK_SCALE_FACTOR: u64 = 10;

impl Watermarks {
    /// Returns the watermarks of a zone of `managed` pages. `min` is the zone's part of the
    /// machine's reserve.
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

/// Returns the kernel's default of min_free_kbytes, its reserve in KiB, for `lowmem_kb` KiB of low
/// memory.
#[must_use]
pub fn min_free_kbytes(lowmem_kb: u64) -> u64 {
    (lowmem_kb.saturating_mul(16)).isqrt().clamp(128, 262_144)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Watermarks and min_free_kbytes have the kernel's values.
    /// spec: reclaim-control.md 11, test 9.
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
