//! How much to scan, and when to age instead. spec: lru-gen.md 5.5.

use super::{DEF_PRIORITY, LruGen, MIN_NR_GENS, Profile, evictable};
use crate::units::Swappiness;

/// Whether eviction needs aging first, and what it would scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanTarget {
    /// No generation is left to evict from: age, then look again.
    pub must_age: bool,
    /// Pages to scan at the given priority, should aging not be needed or not be worth it.
    pub scan: u64,
}

impl LruGen {
    /// The scan target at `priority`; an offline memcg is emptied at once.
    #[must_use]
    pub fn nr_to_scan(&self, swappiness: Swappiness, priority: u32, online: bool) -> ScanTarget {
        let total: u64 = evictable(swappiness).map(|ty| self.total(ty)).sum();
        let scan = if online { total >> priority } else { total };
        let must_age = match self.profile {
            Profile::P616 => self.must_age_p616(swappiness),
            Profile::P63 => self.must_age_p63(swappiness, total),
        };
        // At the first priority one tries to get by without aging.
        let emptying = !online && total > 0;
        ScanTarget {
            must_age: must_age && !emptying && priority != DEF_PRIORITY,
            scan,
        }
    }

    fn must_age_p616(&self, swappiness: Swappiness) -> bool {
        self.evictable_min_seq(swappiness) + MIN_NR_GENS > self.max_seq
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
