//! How much to scan, and when to age instead. spec: lru-gen.md 5.5.

use super::{DEF_PRIORITY, LruGen, MIN_NR_GENS, Profile, evictable};
use crate::units::Swappiness;
use core::cmp::Ordering;

/// Whether eviction is to be preceded by aging, and what it would scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanTarget {
    /// Age, and leave this lruvec then: no generation is left to evict from, or (P616) only one.
    pub must_age: bool,
    /// Pages to scan at the given priority, should aging not be needed or not be worth it.
    pub scan: u64,
}

/// How much eviction wants aging.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// There is nothing to evict from.
    Must,
    /// Eviction could go on, and aging is better.
    Should,
    Nothing,
}

impl LruGen {
    /// The scan target at `priority`; an offline memcg is emptied at once, as far as it can be without aging.
    #[must_use]
    pub fn nr_to_scan(&self, swappiness: Swappiness, priority: u32, online: bool) -> ScanTarget {
        let total = self.evictable_total(swappiness);
        let want = match self.profile {
            Profile::P616 => self.want_p616(swappiness),
            Profile::P63 | Profile::P612 if self.must_age_p63(swappiness, total) => Want::Must,
            Profile::P63 | Profile::P612 => Want::Nothing,
        };
        // P63 scans what it cannot isolate, in vain.
        let size = match (self.profile, want) {
            (Profile::P616, Want::Must) => 0,
            _ => total,
        };
        let emptying = !online && size > 0;
        ScanTarget {
            // At the first priority one tries to get by without aging.
            must_age: want != Want::Nothing && !emptying && priority != DEF_PRIORITY,
            scan: if emptying { size } else { size >> priority },
        }
    }

    /// Pages of the types that may be evicted, of all generations.
    fn evictable_total(&self, swappiness: Swappiness) -> u64 {
        evictable(swappiness).map(|ty| self.total(ty)).sum()
    }

    /// Whether something is left to scan at `priority`; of an offline memcg anything is.
    #[must_use]
    pub fn is_sizable(&self, swappiness: Swappiness, priority: u32, online: bool) -> bool {
        let shift = if online { priority } else { 0 };
        self.evictable_total(swappiness) >> shift > 0
    }

    fn want_p616(&self, swappiness: Swappiness) -> Want {
        match (self.evictable_min_seq(swappiness) + MIN_NR_GENS).cmp(&self.max_seq) {
            Ordering::Greater => Want::Must,
            Ordering::Equal => Want::Should,
            Ordering::Less => Want::Nothing,
        }
    }

    /// P63 also ages when the young crowd the old out, or the old have run low.
    fn must_age_p63(&self, swappiness: Swappiness, total: u64) -> bool {
        let min_seq = self.evictable_min_seq(swappiness);
        if min_seq + MIN_NR_GENS != self.max_seq {
            return min_seq + MIN_NR_GENS > self.max_seq;
        }
        let young: u64 = evictable(swappiness)
            .map(|ty| self.size(self.max_seq, ty))
            .sum();
        let old: u64 = evictable(swappiness).map(|ty| self.size(min_seq, ty)).sum();
        young * MIN_NR_GENS > total || old * (MIN_NR_GENS + 2) < total
    }
}
