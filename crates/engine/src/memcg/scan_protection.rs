//! How many pages of a memcg reclaim may scan, given the memcg's protection: the unprotected part,
//! so that a memcg barely above its protection loses few pages.
//! spec: classic-lru.md 5.3; reclaim-control.md 2.2; lru-gen.md 5.5.

use super::Protection;
use crate::units::{Pages, SWAP_CLUSTER_MAX};

/// A memcg's usage, and the number of its pages that are protected: by min, or by low if low is
/// larger and not ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanProtection {
    /// The memcg's usage.
    pub usage: Pages,
    /// Effective min or low, in pages.
    pub protected: Pages,
    /// Whether it is low that protects the pages. If a reclaim reclaims nothing because of that, it
    /// may ignore low.
    pub by_low: bool,
}

impl ScanProtection {
    /// Creates the value from a memcg's usage and effective protection; `None` if no page is
    /// protected. With `low_reclaim`, low is ignored.
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

    /// Returns how many of `size` pages may be scanned: at least 32, so that reclaim makes
    /// progress.
    #[must_use]
    pub fn scan(self, size: u64) -> u64 {
        let cgroup_size = u128::from(self.usage.max(self.protected).0) + 1;
        let protected = u128::from(size) * u128::from(self.protected.0) / cgroup_size;
        let protected = u64::try_from(protected).unwrap_or(size);
        (size - protected).max(SWAP_CLUSTER_MAX)
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

    /// Protection reduces the pages to scan in proportion, but to no less than 32.
    /// spec: classic-lru.md 8, test 10.
    #[test]
    fn protection_shortens_the_scan() {
        let scan = |usage, low| of(usage, 0, low, false).map(|protection| protection.scan(1000));
        assert_eq!(scan(1000, 500), Some(501));
        assert_eq!(scan(100, 500), Some(32), "1000 - 1000 * 500 / 501 = 2");
        assert_eq!(scan(100, 5_000_000), Some(32));
        assert_eq!(scan(100, 0), None);
    }

    #[test]
    fn low_counts_until_nothing_else_remains() {
        let by_low = |low_reclaim| of(100, 10, 50, low_reclaim).map(|p| (p.protected.0, p.by_low));
        assert_eq!(by_low(false), Some((50, true)));
        assert_eq!(by_low(true), Some((10, false)));
        assert_eq!(of(100, 10, 10, false).map(|p| p.by_low), Some(false));
    }
}
