//! How much of a memcg reclaim looks at, given what is protected of it: in proportion, so that one that is a little
//! above its protection gives little. spec: classic-lru.md 5.3; reclaim-control.md 2.2; lru-gen.md 5.5.

use super::Protection;
use crate::units::{Pages, SWAP_CLUSTER_MAX};

/// Usage, and the part of it that is protected: min, or low where that is more and still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanProtection {
    /// The memcg's usage.
    pub usage: Pages,
    /// Effective min or low.
    pub protected: Pages,
    /// It is low that protects: whoever gets nothing for it may try again without.
    pub by_low: bool,
}

impl ScanProtection {
    /// Of a memcg with this usage and effective protection; `None` when it has none. `low_reclaim`: only min
    /// counts.
    #[must_use]
    pub fn new(usage: Pages, effective: Protection, low_reclaim: bool) -> Option<Self> {
        let by_low = !low_reclaim && effective.low > effective.min;
        let protected = if by_low { effective.low } else { effective.min };
        (protected > Pages(0)).then_some(Self {
            usage,
            protected,
            by_low,
        })
    }

    /// The part of `size` pages that may be scanned; 32 at least, so that reclaim goes forward.
    #[must_use]
    pub fn scan(self, size: u64) -> u64 {
        let cgroup_size = u128::from(self.usage.max(self.protected).0) + 1;
        let kept = u128::from(size) * u128::from(self.protected.0) / cgroup_size;
        let kept = u64::try_from(kept).unwrap_or(size);
        (size - kept).max(SWAP_CLUSTER_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(usage: u64, min: u64, low: u64, low_reclaim: bool) -> Option<ScanProtection> {
        let effective = Protection {
            min: Pages(min),
            low: Pages(low),
        };
        ScanProtection::new(Pages(usage), effective, low_reclaim)
    }

    /// classic-lru.md 8, test 10.
    #[test]
    fn protection_shortens_the_scan() {
        let scan = |usage, low| of(usage, 0, low, false).map(|protection| protection.scan(1000));
        assert_eq!(scan(1000, 500), Some(501));
        assert_eq!(scan(100, 500), Some(32), "1000 - 1000 * 500 / 501 = 2");
        assert_eq!(scan(100, 5_000_000), Some(32));
        assert_eq!(scan(100, 0), None);
    }

    #[test]
    fn low_counts_until_nothing_else_is_left() {
        let by_low = |low_reclaim| of(100, 10, 50, low_reclaim).map(|p| (p.protected.0, p.by_low));
        assert_eq!(by_low(false), Some((50, true)));
        assert_eq!(by_low(true), Some((10, false)));
        assert_eq!(of(100, 10, 10, false).map(|p| p.by_low), Some(false));
    }
}
